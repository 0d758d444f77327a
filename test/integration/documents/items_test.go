package documents

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// document is what one of the documents promises, item by item, in the order in which it is printed there.
type document struct {
	// Name is its folder in testdata, which has its blocks as they are printed, in that order.
	Name string `json:"-"`
	// Title is the heading of its table in docs/documents.md.
	Title string `json:"title"`
	// Files are the names that its commands have for blocks.
	Files map[string]string `json:"files,omitempty"`
	// Shell is what comes before each command: functions that take away what is wrong with blocks in the same way.
	Shell string `json:"shell,omitempty"`
	Items []item `json:"items"`
}

// item is one promise of a document that can be tried.
type item struct {
	// ID names it, and begins with the number of the document.
	ID      string `json:"id"`
	Section string `json:"section"`
	// Says is what is promised.
	Says string `json:"says"`
	// Block is the file that has it. Shows is the place there, as printed; without it the item is of the whole block.
	Block string `json:"block,omitempty"`
	Shows string `json:"shows,omitempty"`
	// Try are steps that are run here, one after the other.
	Try []step `json:"try,omitempty"`
	// Tests are those that prove it elsewhere, as pkg/folder.TestName.
	Tests []string `json:"tests,omitempty"`
	// Row is the row of docs/documents.md that says what is otherwise here, and why.
	Row string `json:"row,omitempty"`
}

// step is a command of a shell in the folder of the document's blocks, or a request to the REST API, and what comes of it.
type step struct {
	Run  string `json:"run,omitempty"`
	HTTP string `json:"http,omitempty"`
	// Send is the file that a request sends, and Code the exit code or the status; 0 is that of success.
	Send string `json:"send,omitempty"`
	Code int    `json:"code,omitempty"`
	// Want is a regular expression of what is printed, or answered. Holds is a block all of which is in the object that is printed.
	Want  string `json:"want,omitempty"`
	Holds string `json:"holds,omitempty"`
	// Awaits says that the step is tried until it comes out as wanted: it changes nothing.
	Awaits bool `json:"awaits,omitempty"`
}

var folders = []string{"000-mapping", "001-case-study", "002-integration", "003-spotpool", "004-pods"}

// itemsFile lists what a document promises, beside its blocks.
const itemsFile = "items.yaml"

func load(t *testing.T, name string) document {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name, itemsFile))
	if err != nil {
		t.Fatal(err)
	}
	d := document{Name: name}
	if err := yaml.UnmarshalStrict(data, &d); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return d
}

// blocks returns the names of a document's blocks, in order.
func (d *document) blocks(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join("testdata", d.Name))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		if entry.Name() != itemsFile {
			names = append(names, entry.Name())
		}
	}
	return names
}

// command matches what a reader types, and listed an entry of a table or list. They are what blocks may hold several items of.
var (
	command = regexp.MustCompile(`^\s*(?:kubectl|gpuctl|helm|make|kubebuilder) `)
	listed  = regexp.MustCompile(`^(?:\||\s*(?:[-•]|\d+\.) )`)
	ruled   = regexp.MustCompile(`^\|[-| :]+\|$`)
)

// entries are the lines of a block that need an item each, none where the block is one item.
func entries(name, text string) []string {
	var found []string
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		heading := i+1 < len(lines) && ruled.MatchString(lines[i+1])
		table := strings.HasSuffix(name, ".md") && listed.MatchString(line) && !ruled.MatchString(line) && !heading
		if table || command.MatchString(line) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}

// TestEveryBlockHasItems checks that all of each document is covered, in the order printed, and that no item is made up.
func TestEveryBlockHasItems(t *testing.T) {
	ids := map[string]bool{}
	for _, name := range folders {
		d := load(t, name)
		shown := map[string][]string{}
		last := ""
		for i := range d.Items {
			it := &d.Items[i]
			if ids[it.ID] || !strings.HasPrefix(it.ID, name[:3]+".") {
				t.Errorf("%s: the ID of an item is unique and begins with its document's number", it.ID)
			}
			ids[it.ID] = true
			if len(it.Try)+len(it.Tests) == 0 && it.Row == "" {
				t.Errorf("%s is neither tried here nor proven elsewhere, and no row says why", it.ID)
			}
			if it.Block == "" {
				continue
			}
			if it.Block < last {
				t.Errorf("%s is not in the order printed: %s after %s", it.ID, it.Block, last)
			}
			last = it.Block
			shown[it.Block] = append(shown[it.Block], it.Shows)
		}
		for _, block := range d.blocks(t) {
			data, err := os.ReadFile(filepath.Join("testdata", name, block))
			if err != nil {
				t.Fatal(err)
			}
			checkCovered(t, name+"/"+block, string(data), shown[block])
			delete(shown, block)
		}
		for block := range shown {
			t.Errorf("%s has no block %s", name, block)
		}
	}
}

func checkCovered(t *testing.T, block, text string, shown []string) {
	t.Helper()
	if len(shown) == 0 {
		t.Errorf("%s has no item", block)
	}
	for _, quote := range shown {
		if !strings.Contains(text, quote) {
			t.Errorf("%s does not say %q", block, quote)
		}
	}
	if slices.Contains(shown, "") {
		return
	}
	for _, line := range entries(block, text) {
		if !slices.ContainsFunc(shown, func(quote string) bool { return covers(quote, line) }) {
			t.Errorf("%s has no item of %q", block, line)
		}
	}
}

// covers reports whether a quotation, of one line or several, has a line, or is of it.
func covers(quote, line string) bool {
	for part := range strings.SplitSeq(quote, "\n") {
		if part = strings.TrimSpace(part); part != "" && strings.Contains(line, part) {
			return true
		}
	}
	return false
}

// TestTheTestsThatItemsNameExist keeps the list true when tests get other names.
func TestTheTestsThatItemsNameExist(t *testing.T) {
	for _, name := range folders {
		d := load(t, name)
		for i := range d.Items {
			for _, test := range d.Items[i].Tests {
				if !exists(t, test) {
					t.Errorf("%s: there is no test %s", d.Items[i].ID, test)
				}
			}
		}
	}
}

// exists reports whether a test is there, as pkg/folder.TestName.
func exists(t *testing.T, test string) bool {
	t.Helper()
	folder, name, ok := strings.Cut(test, ".")
	if !ok {
		return false
	}
	files, err := filepath.Glob(filepath.Join("../../..", folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(data), fmt.Sprintf("\nfunc %s(t *testing.T) {", name)) {
			return true
		}
	}
	return false
}

func TestWhatIsNotCoveredIsNoticed(t *testing.T) {
	table := "| a | b |\n|---|---|\n| `x` | y |\n| `z` | w |\n"
	if got := entries("1.md", table); len(got) != 2 {
		t.Errorf("entries of a table: %q", got)
	}
	if got := entries("1.yaml", "steps:\n  1. look\n     kubectl get nodes\n"); len(got) != 1 {
		t.Errorf("entries of a file: %q", got)
	}
	if covers("| `x`", "| `z` | w |") || !covers("| `z`", "| `z` | w |") || covers("\n", "| `z` | w |") {
		t.Error("a line is covered by what is quoted of it, and by nothing else")
	}
	if exists(t, "test/integration/documents.TestNothing") || exists(t, "nonsense") || !exists(t, "pkg/render.TestContract") {
		t.Error("a test is there, or not")
	}
}
