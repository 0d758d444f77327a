package workdir

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
)

const limit = 1 << 20

func text(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s), Mode: 0o644} }

func link(to string) *fstest.MapFile {
	return &fstest.MapFile{Data: []byte(to), Mode: fs.ModeSymlink | 0o777}
}

// packed is what of files is in the archive, one line each.
func packed(t *testing.T, folder Folder) ([]string, *Listing, error) {
	t.Helper()
	listing, err := List(folder, limit)
	if err != nil {
		return nil, nil, err
	}
	archive, err := Pack(folder.Files, listing, limit)
	if err != nil {
		return nil, listing, err
	}
	return unpacked(t, archive.Data), listing, nil
}

func unpacked(t *testing.T, data []byte) []string {
	t.Helper()
	plain, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for archive := tar.NewReader(plain); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		line := fmt.Sprintf("%o %s", header.Mode, header.Name)
		if header.Linkname != "" {
			line += " -> " + header.Linkname
		}
		if len(content) > 0 {
			line += " " + string(content)
		}
		out = append(out, line)
	}
}

func TestWhatIsSent(t *testing.T) {
	tests := map[string]struct {
		folder  Folder
		want    []string
		ignored int
		special []string
		outside []string
	}{
		"files, their modes, and nothing of git": {
			folder: Folder{Files: fstest.MapFS{
				"train.py": text("x"), "run.sh": {Data: []byte("y"), Mode: 0o700}, "secret": {Data: []byte("z"), Mode: 0o600},
				".git/config": text("g"), "lib/.git": text("gitdir: elsewhere"), "lib/a.py": text("a"),
			}},
			want: []string{"755 lib/", "644 lib/a.py a", "755 run.sh y", "644 secret z", "644 train.py x"},
		},
		"nested files that leave out": {
			folder: Folder{Files: fstest.MapFS{
				".gitignore": text("*.bin\nvenv/\n"), "a.bin": text("1"), "venv/x.py": text("1"),
				"lib/.gitignore": text("!keep.bin\n/local\n"), "lib/keep.bin": text("k"), "lib/drop.bin": text("1"),
				"lib/local": text("1"), "lib/in/local": text("l"),
			}},
			want: []string{
				"644 .gitignore *.bin\nvenv/\n", "755 lib/", "644 lib/.gitignore !keep.bin\n/local\n",
				"755 lib/in/", "644 lib/in/local l", "644 lib/keep.bin k",
			},
			ignored: 4,
		},
		"what a folder above leaves out, from there": {
			folder: Folder{
				Files: fstest.MapFS{".env": text("1"), "out": text("1"), "train.py": text("x")},
				Above: []string{".env\n/jobs/sft/out\n/out\n"}, Steps: []string{"jobs", "sft"},
			},
			want: []string{"644 train.py x"}, ignored: 2,
		},
		"a .dockerignore that keeps a part of a folder": {
			folder: Folder{Files: fstest.MapFS{
				".dockerignore": text("# all\n*\n!src/**/*.py\n"), "src/a/b.py": text("b"), "src/a/c.txt": text("1"), "data/x": text("1"),
			}},
			want: []string{"755 src/", "755 src/a/", "644 src/a/b.py b"}, ignored: 3,
		},
		"links stand last, and those that lead out are told": {
			folder: Folder{Files: fstest.MapFS{
				"a": link("z/f"), "up": link("../../etc/passwd"), "abs": link("/data"), "z/f": text("f"), "z/same": link("../a"),
			}},
			want: []string{
				"755 z/", "644 z/f f", "777 a -> z/f", "777 abs -> /data", "777 up -> ../../etc/passwd", "777 z/same -> ../a",
			},
			outside: []string{"abs", "up"},
		},
		"what is neither file, folder nor link": {
			folder: Folder{Files: fstest.MapFS{"a": text("a"), "s.sock": {Mode: fs.ModeSocket}, "p": {Mode: fs.ModeNamedPipe}}},
			want:   []string{"644 a a"}, special: []string{"p", "s.sock"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, listing, err := packed(t, tc.folder)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("what is sent (-want +got):\n%s", diff)
			}
			if listing.Ignored != tc.ignored {
				t.Errorf("got %d left out, want %d", listing.Ignored, tc.ignored)
			}
			if diff := cmp.Diff([][]string{tc.special, tc.outside}, [][]string{listing.Special, listing.Outside}); diff != "" {
				t.Errorf("what is told (-want +got):\n%s", diff)
			}
		})
	}
}

// TestTheSameContentIsTheSameArchive whoever has it, and when it was written; and other content is another.
func TestTheSameContentIsTheSameArchive(t *testing.T) {
	digest := func(files fstest.MapFS) string {
		listing, err := List(Folder{Files: files}, limit)
		if err != nil {
			t.Fatal(err)
		}
		archive, err := Pack(files, listing, limit)
		if err != nil {
			t.Fatal(err)
		}
		return archive.Digest
	}
	first := digest(fstest.MapFS{"a": {Data: []byte("a"), Mode: 0o600, ModTime: time.Unix(1, 0)}, "b/c": text("c")})
	if again := digest(fstest.MapFS{"b/c": text("c"), "a": {Data: []byte("a"), Mode: 0o664, ModTime: time.Unix(2, 0)}}); again != first {
		t.Errorf("the same content has another digest")
	}
	for name, other := range map[string]fstest.MapFS{
		"another content": {"a": text("b"), "b/c": text("c")}, "another name": {"a2": text("a"), "b/c": text("c")},
		"one that can be run": {"a": {Data: []byte("a"), Mode: 0o755}, "b/c": text("c")}, "a link": {"a": link("a"), "b/c": text("c")},
	} {
		if digest(other) == first {
			t.Errorf("%s has the same digest", name)
		}
	}
}

// TestNamesAreThoseThatEveryTarReads: of the format of pax BusyBox reads no names.
func TestNamesAreThoseThatEveryTarReads(t *testing.T) {
	files := fstest.MapFS{"数据/训练.py": text("x"), strings.Repeat("n", 101): text("y"), "链接": link("a"), "far": link(strings.Repeat("f", 101)), "plain": text("z")}
	listing, err := List(Folder{Files: files}, limit)
	if err != nil {
		t.Fatal(err)
	}
	archive, err := Pack(files, listing, limit)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := gzip.NewReader(bytes.NewReader(archive.Data))
	if err != nil {
		t.Fatal(err)
	}
	for entries, reader := 0, tar.NewReader(plain); ; entries++ {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) && entries == len(listing.Entries) {
			return
		}
		if err != nil {
			t.Fatalf("after %d of %d entries: %v", entries, len(listing.Entries), err)
		}
		if want := header.Name == "plain"; header.Format&tar.FormatPAX != 0 || (header.Format&tar.FormatUSTAR != 0) != want {
			t.Errorf("%s has the format %v; that of GNU is for who needs it", header.Name, header.Format)
		}
	}
}

// growing is a file that is longer each time one looks, as a log is.
type growing struct {
	fstest.MapFS
	opened int
}

func (g *growing) Open(name string) (fs.File, error) {
	if name == "log" {
		g.opened++
		g.MapFS["log"] = text(strings.Repeat("x", g.opened))
		file, err := g.MapFS.Open(name)
		return &lying{file}, err
	}
	return g.MapFS.Open(name)
}

// lying says that it has one byte more than it has.
type lying struct{ fs.File }

func (l *lying) Stat() (fs.FileInfo, error) {
	info, err := l.File.Stat()
	return longer{info}, err
}

type longer struct{ fs.FileInfo }

func (l longer) Size() int64 { return l.FileInfo.Size() + 1 }

// unreadable fails to open one of its files.
type unreadable struct{ fstest.MapFS }

func (u unreadable) Open(name string) (fs.File, error) {
	if name == "lib/secret" {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	}
	return u.MapFS.Open(name)
}

func TestWhatCannotBeSent(t *testing.T) {
	noise := make([]byte, 3*limit/2)
	rand.New(rand.NewSource(1)).Read(noise)
	many := fstest.MapFS{"a": text("a")}
	for i := range maxFiles {
		many[fmt.Sprintf("node_modules/%d", i)] = text("")
	}
	tests := map[string]struct {
		files fs.FS
		want  string
	}{
		"files that are too large, before they are read": {
			files: fstest.MapFS{"data/big.bin": {Data: make([]byte, maxCompressionRatio*limit)}, "a": text("a"), "b": text("bb"), "c": text("ccc")},
			want:  "the folder holds 16 MiB, and at most 16 MiB may be sent, which compress to 1 MiB; the largest files are data/big.bin (16 MiB), c (3 B), b (2 B)\n",
		},
		"files that do not compress":   {files: fstest.MapFS{"noise": {Data: noise}}, want: "the folder holds 1.5 MiB, which do not compress to the 1 MiB that may be sent; the largest files are noise (1.5 MiB)\n"},
		"too many files":               {files: many, want: "the folder has more than 20000 files; most of them are in node_modules, a\n"},
		"a file that cannot be read":   {files: unreadable{fstest.MapFS{"lib/secret": text("s")}}, want: "lib/secret cannot be read: permission denied\nMake it readable"},
		"a file that is being written": {files: &growing{MapFS: fstest.MapFS{"log": text("")}}, want: "log changes while it is read: wait until it is written"},
		"nothing":                      {files: fstest.MapFS{".gitignore": text("*"), "a": text("a")}, want: "the folder has no file that is sent; 2 are left out"},
		"a .dockerignore that is none": {files: fstest.MapFS{".dockerignore": text("[a"), "a": text("a")}, want: ".dockerignore: syntax error in pattern"},
		"a .gitignore without end":     {files: fstest.MapFS{".gitignore": {Data: make([]byte, maxIgnoreSize+1)}}, want: ".gitignore has 1 MiB: it would take too long to go by"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, _, err := packed(t, Folder{Files: tc.files})
			if err == nil || !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("got %d entries and error %q, want one that begins with %q", len(got), err, tc.want)
			}
		})
	}
}

// TestAFileIsReadAgainThatHasChanged: a file that is written while it is read is read until it is whole.
func TestAFileIsReadAgainThatHasChanged(t *testing.T) {
	files := &growing{MapFS: fstest.MapFS{"log": text("")}}
	if _, err := readStable(files, "log", limit); !errors.As(err, new(*ChangedError)) || files.opened != readAttempts {
		t.Errorf("got error %v after %d attempts, want a ChangedError after %d", err, files.opened, readAttempts)
	}
}

// TestANameThatIsNoText is told as such; what is left out may be called as it likes.
func TestANameThatIsNoText(t *testing.T) {
	files := fstest.MapFS{"a.py": text("a"), "\xff.bin": text("b")}
	if _, _, err := packed(t, Folder{Files: files}); err == nil || !strings.Contains(err.Error(), "cannot be read: its name is no UTF-8 text") {
		t.Errorf("it says %v", err)
	}
	files[".gitignore"] = text("*.bin\n")
	if _, _, err := packed(t, Folder{Files: files}); err != nil {
		t.Errorf("left out, it says %v", err)
	}
}
