package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheEditorIsThatOfTheUser(t *testing.T) {
	for want, env := range map[string][2]string{
		"nano, which $VISUAL":     {"nano", "ed"},
		"ed, which":               {"", "ed"},
		"vi, as neither $VISUAL ": {"", ""},
	} {
		t.Setenv("VISUAL", env[0])
		t.Setenv("EDITOR", env[1])
		if editor, named := userEditor(); !strings.HasPrefix(editor+", "+named.String(), want) {
			t.Errorf("with %q it is %s, %s; want %s", env, editor, named, want)
		}
	}
}

// TestOnlyWhatWasWrittenIsKept: an editor that failed leaves no file behind that nobody changed.
func TestOnlyWhatWasWrittenIsKept(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	streams, _, _ := TestIOStreams("")
	v := &jobVerb{}
	v.io = streams
	for editor, kept := range map[string]int{"false": 0, "echo changed >> \"$1\"; false": 1} {
		t.Setenv("VISUAL", editor)
		_, err := v.runEditor(t.Context(), "sft", "kind: training\n")
		files, _ := filepath.Glob(filepath.Join(dir, "*"))
		if err == nil || len(files) != kept || strings.Contains(err.Error(), "what you wrote is in") != (kept == 1) {
			t.Errorf("%s: %d files, %v; want %d", editor, len(files), err, kept)
		}
		for _, file := range files {
			_ = os.Remove(file)
		}
	}
}
