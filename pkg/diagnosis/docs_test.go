package diagnosis

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestEveryCauseIsDocumented compares the causes with docs/why.md: users' programs decide by them.
func TestEveryCauseIsDocumented(t *testing.T) {
	source, err := os.ReadFile("cause.go")
	if err != nil {
		t.Fatal(err)
	}
	docs, err := os.ReadFile("../../docs/why.md")
	if err != nil {
		t.Fatal(err)
	}
	causes := regexp.MustCompile(`Cause = "(\w+)"`).FindAllStringSubmatch(string(source), -1)
	if len(causes) < 40 {
		t.Fatalf("found %d causes, so the comparison proves nothing", len(causes))
	}
	for _, cause := range causes {
		if !strings.Contains(string(docs), "`"+cause[1]+"`") {
			t.Errorf("docs/why.md does not name %s", cause[1])
		}
	}
}
