"""scripts/corpus-english and scripts/corpus-pairs on packages that are made here."""

import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"


def catalogue(pairs):
    """A .mo file."""
    ids = [a.encode() for a, _ in pairs]
    texts = [b.encode() for _, b in pairs]
    head, count = 28, len(pairs)
    data, tables, at = b"", [], head + 16 * count
    for strings in (ids, texts):
        for text in strings:
            tables.append(struct.pack("<2I", len(text), at))
            data += text + b"\0"
            at += len(text) + 1
    return struct.pack("<7I", 0x950412DE, 0, count, head, head + 8 * count, 0, 0) + b"".join(tables) + data


class Corpora(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="kith-corpora-")
        self.root = pathlib.Path(self.folder.name)

    def tearDown(self):
        self.folder.cleanup()

    def write(self, path, content):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())

    def run_script(self, name, *words):
        done = subprocess.run([sys.executable, SCRIPTS / name, "--to", self.root / "out", "--unpacked", self.root, *words],
                              capture_output=True, text=True)
        return done.returncode, done.stderr

    def lines(self, name):
        return (self.root / "out" / name).read_text().splitlines()

    def test_pairs_are_split_by_package_and_nothing_leaks(self):
        shared = ("The file could not be opened", "Die Datei konnte nicht geöffnet werden")
        self.write("one/usr/share/locale/de/LC_MESSAGES/one.mo", catalogue([
            ("", "Content-Type: text/plain; charset=UTF-8\n"), shared, ("_Save the current file", "Aktuelle Datei _speichern"),
            ("OK", "OK"), ("Options:\n  -a  all of it", "Optionen:\n  -a  alles"),
            ("one file\0%d files", "eine Datei\0%d Dateien"), ("the same in both words", "the same in both words")]))
        self.write("one/usr/share/doc/one/copyright", "License: GPL-2+\nLicense: Expat\n")
        self.write("two/usr/share/locale/de/LC_MESSAGES/two.mo", catalogue([
            shared, ("Another way to say it", shared[1]), ("Do you want to go on?", "Möchten Sie fortfahren?")]))
        code, errors = self.run_script("corpus-pairs", "--packages", "one", "two", "--validate-on", "two")
        self.assertEqual(code, 0, errors)
        self.assertEqual(self.lines("train.en"), [shared[0], "Save the current file"])
        self.assertEqual(self.lines("train.de"), [shared[1], "Aktuelle Datei speichern"])
        self.assertEqual(self.lines("validation.en"), ["Do you want to go on?"])
        self.assertEqual(self.lines("validation.de"), ["Möchten Sie fortfahren?"])
        sources = (self.root / "out/SOURCES.md").read_text()
        self.assertIn("| one | as given | 2 pairs | train | GPL-2+, Expat |", sources)
        self.assertTrue((self.root / "out/licences/one").is_file())

    def test_a_damaged_catalogue_is_named(self):
        self.write("one/usr/share/locale/de/LC_MESSAGES/one.mo", b"not a catalogue at all, not at all")
        code, errors = self.run_script("corpus-pairs", "--packages", "one")
        self.assertNotEqual(code, 0)
        self.assertIn("one.mo", errors)

    def page(self, number, sentences=30):
        body = "".join(f"<p>Sentence {i} of page {number} says something that no other page in the corpus ever says, "
                       f"which is why it counts.</p>" for i in range(sentences))
        return f"<html><head><title>no</title></head><body><h1>Page {number}</h1>{body}<script>code()</script></body></html>"

    def test_pages_are_whole_and_come_once(self):
        for i in range(60):
            self.write(f"doc/usr/share/doc/doc/html/{i}.html", self.page(i))
            self.write(f"doc/usr/share/doc/doc/text/{i}.txt", self.page(i))  # the same in another form
        self.write("doc/usr/share/doc/doc/html/all.html", "".join(self.page(i) for i in range(60)))
        self.write("doc/usr/share/doc/doc/html/0.de.html", self.page(99))
        self.write("doc/usr/share/doc/doc/html/short.html", "<p>Too short to learn from.</p>")
        code, errors = self.run_script("corpus-english", "--packages", "doc", "--validation", "0.3")
        self.assertEqual(code, 0, errors)
        train, validation = "\n".join(self.lines("train.txt")), "\n".join(self.lines("validation.txt"))
        for i in range(60):
            sentence = f"Sentence 3 of page {i} says something"
            self.assertEqual(train.count(sentence) + validation.count(sentence), 1, i)
            part = train if sentence in train else validation
            self.assertIn(f"Sentence 29 of page {i} says", part, "a page is not cut")
        self.assertGreater(validation.count("Sentence 3 of page"), 8)
        self.assertNotIn("code()", train + validation)
        self.assertNotIn("page 99", train + validation)


unittest.main()
