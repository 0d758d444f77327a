package diagnosis

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestTheDocsNameAll compares the causes and actions with docs/why.md, both ways: users' programs decide by them.
func TestTheDocsNameAll(t *testing.T) {
	docs, err := os.ReadFile("../../docs/why.md")
	if err != nil {
		t.Fatal(err)
	}
	_, tables, _ := strings.Cut(string(docs), "## Causes")
	tables, _, _ = strings.Cut(tables, "## The scheduler's records")
	known := map[string]bool{}
	for kind, file := range map[string]string{"Cause": "cause.go", "Action": "step.go"} {
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
