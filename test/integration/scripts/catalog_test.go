package scripts

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"g8s.host/gpu-scheduler/cli"
)

// catalog names what the scripts must show: the cases and scenarios that are published for gpuctl, the mistakes of the
// first gpuctl, none of which may come back, and those of its habits that its own tests pinned down.
func catalog() []string {
	var out []string
	number := func(format string, numbers ...int) {
		for _, n := range numbers {
			out = append(out, fmt.Sprintf(format, n))
		}
	}
	upTo := func(format string, most int) {
		for n := range most {
			number(format, n+1)
		}
	}
	upTo("case %d", 52)
	upTo("scenario S-%d", 5)
	upTo("mistake B%d", 22)
	number("habit U%d", 1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 13, 19) // the others are of its REST API and its insides
	return out
}

// section is a part of a script: a comment and what follows it.
type section struct{ title, body string }

// sections splits the script of a file, without the files that it holds.
func sections(text string) []section {
	text, _, _ = strings.Cut(text, "\n-- ")
	var out []section
	for line := range strings.Lines(text) {
		comment, isComment := strings.CutPrefix(line, "# ")
		switch {
		case isComment && len(out) > 0 && out[len(out)-1].body == "": // the comment goes on
		case isComment:
			out = append(out, section{title: strings.TrimSpace(comment)})
		case len(out) > 0:
			out[len(out)-1].body += line
		}
	}
	return out
}

func scripts(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("finding the scripts: %d files, %v", len(files), err)
	}
	var out []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(text))
	}
	return out
}

var (
	// runs matches a line that runs gpuctl, and captures its arguments.
	runs = regexp.MustCompile(`(?m)^(?:exec|eventually|code \d+|terminal \d+) (?:.*[^\w-])??gpuctl (.*)$`)
	// expects matches a line that says what must have come out.
	expects = regexp.MustCompile(`(?m)^(?:! )?(?:code [1-9]|cmp |json$|stdout |stderr |exec grep |exec cmp )`)
	// ends matches an exit code that a script expects, in one of its two spellings.
	ends = regexp.MustCompile(`(?m)^(?:code|terminal) (\d+) .*gpuctl|rc=(\d+)`)
	// listed matches a row of the table of exit codes in docs/gpuctl.md.
	listed = regexp.MustCompile(`(?m)^\| (\d+) \|`)
)

// TestTheCatalogIsCovered fails when an entry of the catalog has not exactly one section, which runs gpuctl and says
// what must come out.
func TestTheCatalogIsCovered(t *testing.T) {
	found := map[string][]section{}
	for _, text := range scripts(t) {
		for _, s := range sections(text) {
			name, _, ok := strings.Cut(s.title, ": ")
			if ok {
				found[name] = append(found[name], s)
			}
		}
	}
	for _, name := range catalog() {
		switch s := found[name]; {
		case len(s) != 1:
			t.Errorf("%d sections show %s, want one", len(s), name)
		case !runs.MatchString(s[0].body), !expects.MatchString(s[0].body):
			t.Errorf("the section %q runs no gpuctl, or expects nothing:\n%s", s[0].title, s[0].body)
		}
	}
}

// TestEveryExitCodeIsExpected fails when a script ends with no code that docs/gpuctl.md lists, or the other way round.
func TestEveryExitCodeIsExpected(t *testing.T) {
	page, err := os.ReadFile("../../../docs/gpuctl.md")
	if err != nil {
		t.Fatal(err)
	}
	expected := map[string]bool{"0": true} // every exec expects it
	for _, text := range scripts(t) {
		for _, match := range ends.FindAllStringSubmatch(text, -1) {
			expected[match[1]+match[2]] = true
		}
	}
	for _, match := range listed.FindAllStringSubmatch(string(page), -1) {
		if !expected[match[1]] {
			t.Errorf("no script ends with exit code %s", match[1])
		}
	}
}

// TestEveryCommandHasAScript fails when a command is in no script.
func TestEveryCommandHasAScript(t *testing.T) {
	var called []string
	for _, text := range scripts(t) {
		for _, match := range runs.FindAllStringSubmatch(text, -1) {
			called = append(called, match[1])
		}
	}
	for _, path := range cli.CommandPaths() {
		if !calls(called, path) {
			t.Errorf("no script runs gpuctl %s", path)
		}
	}
}

// calls reports whether one of the command lines begins with the words of a command.
func calls(lines []string, path string) bool {
	for _, line := range lines {
		if strings.HasPrefix(line+" ", path+" ") {
			return true
		}
	}
	return false
}
