// What members and newcomers write in the Store.
#include "kith/launch/admission_words.h"

#include <gtest/gtest.h>

#include "kith/base/error.h"
#include "kith/launch/views.h"

namespace kith::launch {
namespace {

TEST(AdmissionWords, ReadBack) {
  const Application application =
      decode_application(encode(Application{WorkerId{7}, 3, "awc, 4 parameters"}));
  EXPECT_EQ(application.worker, WorkerId{7});
  EXPECT_EQ(application.attempt, 3);
  EXPECT_EQ(application.facts, "awc, 4 parameters");
  const Answer answer =
      decode_answer(encode(Answer{{}, 5, WorkerId{2}, {WorkerId{0}, WorkerId{2}, WorkerId{7}}}));
  EXPECT_TRUE(answer.refusal.empty());
  EXPECT_EQ(answer.view, 5u);
  EXPECT_EQ(answer.donor, WorkerId{2});
  EXPECT_EQ(answer.workers.size(), 3u);
  EXPECT_EQ(decode_answer(encode(Answer{"no room", 0, {}, {}})).refusal, "no room");
  EXPECT_EQ(taken_view(taken_for(12)), 12u);
  EXPECT_EQ(taken_view("failed: worker 7 is gone"), 0u);
}

TEST(AdmissionWords, OtherTextIsAnError) {
  for (const char* text : {"", "x", "-1 0 facts", "7"})
    EXPECT_THROW(decode_application(text), Error) << text;
  for (const char* text : {"", "5", "5 2 3 0 1", "5 2 99999999999 0", "a b c"})
    EXPECT_THROW(decode_answer(text), Error) << text;
}

TEST(AdmissionWords, AViewTellsWhoLeftAndWhoCame) {
  View view;
  view.members = {4, {WorkerId{1}, WorkerId{9}}};
  view.reached = {{10, 2}, {7, 2}};
  view.first = {10, 2};
  view.values = {0.5};
  view.left = {WorkerId{0}};
  view.admission = 6;
  const View read = decode_view(encode(view));
  EXPECT_EQ(read.left, view.left);
  EXPECT_EQ(read.admission, 6);
  EXPECT_TRUE(read.has(WorkerId{9}));
  EXPECT_FALSE(read.has(WorkerId{0}));
  EXPECT_EQ(read.reached, view.reached);
}

}  // namespace
}  // namespace kith::launch
