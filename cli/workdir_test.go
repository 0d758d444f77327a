package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// tree writes files below a folder, and makes those around them.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// TestWhatARepositoryIgnoresStaysAtHome also where only a part of it is sent, and nothing above it counts.
func TestWhatARepositoryIgnoresStaysAtHome(t *testing.T) {
	for name, tc := range map[string]struct {
		marker string
		want   int
	}{
		"a repository":          {marker: "repo/.git/HEAD", want: 1},
		"a folder that is none": {marker: "repo/HEAD", want: 3},
	} {
		t.Run(name, func(t *testing.T) {
			root := tree(t, map[string]string{
				".gitignore": "*\n", tc.marker: "x", "repo/.gitignore": "notes\n/jobs/sft/out\n",
				"repo/jobs/sft/train.py": "x", "repo/jobs/sft/notes": "x", "repo/jobs/sft/out": "1",
			})
			sent, err := packFolder(filepath.Join(root, "repo", "jobs", "sft"), 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			if sent.listing.Files != tc.want {
				t.Errorf("%d files are sent, want %d: %+v", sent.listing.Files, tc.want, sent.listing.Entries)
			}
		})
	}
}

// TestALinkDoesNotSendWhatItLeadsTo: the folder itself may be one, and what is in it stays in it.
func TestALinkDoesNotSendWhatItLeadsTo(t *testing.T) {
	root := tree(t, map[string]string{"code/train.py": "x", "secret": "KEY"})
	for link, target := range map[string]string{"code/out": "../secret", "here": "code"} {
		if err := os.Symlink(target, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	sent, err := packFolder(filepath.Join(root, "here"), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if sent.listing.Size != 1 || len(sent.listing.Outside) != 1 {
		t.Errorf("%d bytes are sent, and %v lead out; want 1, and out", sent.listing.Size, sent.listing.Outside)
	}
}

// TestAFolderThatCannotBeSent is told by what is wrong with it.
func TestAFolderThatCannotBeSent(t *testing.T) {
	root := tree(t, map[string]string{"file": "x"})
	for folder, want := range map[string]string{"none": "no such file", "file": "not a directory"} {
		if _, err := packFolder(filepath.Join(root, folder), 1<<20); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want one with %q", folder, err, want)
		}
	}
}
