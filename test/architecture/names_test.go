package architecture

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
)

// maxOneWordNames is the largest share of functions and methods that may be named by one word. kube-scheduler has 12 %, KAI 6 %, Volcano 9 %,
// Kueue 20 % (November 2026). What is left here are names that interfaces of Go and Kubernetes prescribe, and New.
const maxOneWordNames = 0.12

// TestFunctionNamesSayWhatTheyDo counts names of one word: a function says verb and object (CONTRIBUTING.md).
func TestFunctionNamesSayWhatTheyDo(t *testing.T) {
	all, oneWord := 0, map[string]int{}
	for _, folder := range packages(t) {
		files, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range files {
			for _, name := range functionNames(t, path) {
				all++
				if isOneWord(name) {
					oneWord[name]++
				}
			}
		}
	}
	count := 0
	for _, times := range oneWord {
		count += times
	}
	if all < 5000 {
		t.Fatalf("%d functions were found, fewer than there are", all)
	}
	share := float64(count) / float64(all)
	t.Logf("%d of %d functions (%.1f %%) have names of one word", count, all, 100*share)
	if share > maxOneWordNames {
		t.Errorf("%.1f %% of the functions have names of one word, more than %.0f %%; the new ones are among %v", 100*share, 100*maxOneWordNames, oneWord)
	}
}

// functionNames returns the names of the functions and methods of a file, none for tests and generated files.
func functionNames(t *testing.T, path string) (names []string) {
	t.Helper()
	if strings.HasSuffix(path, "_test.go") {
		return nil
	}
	source, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	file, err := parser.ParseFile(token.NewFileSet(), path, source, parser.SkipObjectResolution|parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	if ast.IsGenerated(file) {
		return nil
	}
	for _, declaration := range file.Decls {
		if function, ok := declaration.(*ast.FuncDecl); ok {
			names = append(names, function.Name.Name)
		}
	}
	return names
}

// isOneWord reports whether no capital follows a small letter: "run", "New" and "GPUs" are one word, "runSuite" is two.
func isOneWord(name string) bool {
	small := false
	for _, letter := range name {
		if small && unicode.IsUpper(letter) {
			return false
		}
		small = unicode.IsLower(letter)
	}
	return true
}
