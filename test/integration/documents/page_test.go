package documents

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the count of docs/documents.md anew")

const page = "../../../docs/documents.md"

// row matches a row of the tables of the page: its number is that of the document, and its own.
var row = regexp.MustCompile(`(?m)^\| (\d{3}-\d+) \|`)

const (
	begin = "<!-- count: written by go test ./test/integration/documents -run Page -update -->\n"
	end   = "<!-- end of count -->\n"
)

// TestThePageSaysWhatDiffers compares the rows of the page with those that items need, and its count with that of the items.
func TestThePageSaysWhatDiffers(t *testing.T) {
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	told := map[string]bool{}
	for _, match := range row.FindAllStringSubmatch(text, -1) {
		if told[match[1]] {
			t.Errorf("row %s is there twice", match[1])
		}
		told[match[1]] = true
	}
	needed := map[string]bool{}
	for _, name := range folders {
		d := load(t, name)
		if !strings.Contains(text, "\n## "+d.Title+"\n") {
			t.Errorf("the page has no section %q", d.Title)
		}
		for i := range d.Items {
			it := &d.Items[i]
			if it.Row != "" && (!told[it.Row] || !strings.HasPrefix(it.Row, name[:3])) {
				t.Errorf("%s needs row %s, which the page has not", it.ID, it.Row)
			}
			needed[it.Row] = true
		}
	}
	for number := range told {
		if !needed[number] {
			t.Errorf("no item needs row %s", number)
		}
	}
	checkCount(t, text)
}

func checkCount(t *testing.T, text string) {
	t.Helper()
	before, rest, ok := strings.Cut(text, begin)
	_, after, ended := strings.Cut(rest, end)
	if !ok || !ended {
		t.Fatalf("the page has no place for the count")
	}
	want := before + begin + count(t) + end + after
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if text != want {
		t.Errorf("the count of the page is another: go test ./test/integration/documents -run Page -update\n%s", count(t))
	}
}

// count is the table of how many items there are, and how each is proven.
func count(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("| document | items | as shown, tried here | as shown, by tests elsewhere | with a row |\n|---|---|---|---|---|\n")
	var total [4]int
	for _, name := range folders {
		d := load(t, name)
		var n [4]int
		for i := range d.Items {
			n[0]++
			switch it := &d.Items[i]; {
			case it.Row != "":
				n[3]++
			case len(it.Try) > 0:
				n[1]++
			default:
				n[2]++
			}
		}
		for i := range n {
			total[i] += n[i]
		}
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %d |\n", d.Title, n[0], n[1], n[2], n[3])
	}
	fmt.Fprintf(&b, "| **all** | **%d** | **%d** | **%d** | **%d** |\n", total[0], total[1], total[2], total[3])
	return b.String()
}
