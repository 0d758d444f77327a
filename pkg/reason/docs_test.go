package reason

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the table of reasons into docs/why.md")

const (
	docs       = "../../docs/why.md"
	begin, end = "<!-- reasons: written by go test ./pkg/reason -update -->\n", "<!-- end of reasons -->"
)

// all are the reasons of the catalogue.
func all() []*Reason {
	out := slices.Concat(RefusalReasons, PodReasons, GangReasons, EvictionReasons, ClaimReasons, NodeReasons, PlainNodeReasons)
	return append(out, InOtherPool, WithOtherType, InAnotherPool, OtherInBoth)
}

// TestTheDocsHaveTheReasons compares the table of docs/why.md with the catalogue.
func TestTheDocsHaveTheReasons(t *testing.T) {
	text, err := os.ReadFile(docs)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has no place for the table", docs)
	}
	want := before + begin + table() + end + after
	if *update {
		if err := os.WriteFile(docs, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want != string(text) {
		t.Errorf("%s has another table than the catalogue: run go test ./pkg/reason -update", docs)
	}
}

var verb = regexp.MustCompile(`%[dqs]`)

func table() string {
	var out strings.Builder
	out.WriteString("\n| the scheduler says | cause | an eviction helps |\n|---|---|---|\n")
	for _, r := range all() {
		var texts []string
		for _, text := range append([]Text{r.Text}, r.Also...) {
			texts = append(texts, "`"+verb.ReplaceAllString(string(text), "…")+"`")
		}
		evictable := ""
		if r.Evictable {
			evictable = "yes"
		}
		fmt.Fprintf(&out, "| %s | `%s` | %s |\n", strings.Join(texts, "<br>"), r.Cause, evictable)
	}
	return out.String() + "\n"
}

// TestTheDocsNameAll compares the causes and actions with docs/why.md, both ways: users' programs decide by them.
func TestTheDocsNameAll(t *testing.T) {
	text, err := os.ReadFile(docs)
	if err != nil {
		t.Fatal(err)
	}
	_, tables, _ := strings.Cut(string(text), "## Causes")
	tables, _, _ = strings.Cut(tables, "## The scheduler's records")
	known := map[string]bool{}
	for kind, file := range map[string]string{"Cause": "cause.go", "Action": "action.go"} {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		words := regexp.MustCompile(kind+` = "(\w+)"`).FindAllStringSubmatch(string(source), -1)
		if len(words) < 25 {
			t.Fatalf("found %d of %s, so the comparison proves nothing", len(words), kind)
		}
		for _, word := range words {
			known[word[1]] = true
			if !strings.Contains(tables, "`"+word[1]+"`") {
				t.Errorf("docs/why.md does not name %s %s", kind, word[1])
			}
		}
	}
	for _, word := range regexp.MustCompile("`([A-Z]\\w+)`").FindAllStringSubmatch(tables, -1) {
		if !known[word[1]] {
			t.Errorf("docs/why.md names %s, which there is not", word[1])
		}
	}
}
