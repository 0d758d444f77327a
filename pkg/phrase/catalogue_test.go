package phrase_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"g8s.host/gpu-scheduler/pkg/reason"
)

// catalogue reads files of the Chinese catalogue.
func catalogue(t *testing.T, files ...string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, file := range files {
		data, err := os.ReadFile(filepath.Join("zh", file))
		if err != nil {
			t.Fatal(err)
		}
		words := map[string]string{}
		if err := yaml.Unmarshal(data, &words); err != nil { // which refuses a key that is there twice
			t.Fatalf("%s: %v", file, err)
		}
		for key, text := range words {
			if out[key] != "" {
				t.Errorf("%s has words for what another file has: %q", file, key)
			}
			out[key] = text
		}
	}
	return out
}

// compare holds that files of the catalogue have what the code says, and nothing else.
func compare(t *testing.T, said map[string]string, files ...string) {
	t.Helper()
	words := catalogue(t, files...)
	for key, where := range said {
		// What is punctuation alone may be the same in every language.
		if words[key] == "" && letters.MatchString(verbs.ReplaceAllString(key, "")) {
			t.Errorf("%v have no words for what %s says: %q", files, where, key)
		}
	}
	for key := range words {
		if said[key] == "" {
			t.Errorf("%v have words for what nobody says: %q", files, key)
		}
	}
}

func TestTheCatalogueHasTheReasons(t *testing.T) {
	said := map[string]string{}
	for _, r := range slices.Concat(reason.OfPods, reason.OfGangs, reason.OfEvictions, reason.OfClaims, reason.OfNodes, reason.OfPlainNodes) {
		said[r.Says] = "pkg/reason"
		for _, advice := range r.Advice {
			said[advice.Text] = "pkg/reason"
		}
	}
	compare(t, said, "reasons.yaml")
}

func TestTheCatalogueHasTheSentences(t *testing.T) {
	said := map[string]string{}
	for _, tree := range []string{"pkg", "cli"} {
		err := filepath.WalkDir(filepath.Join("../..", tree), func(path string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
				collect(t, path, said)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(said) < 200 {
		t.Fatalf("found %d sentences, so the comparison proves nothing", len(said))
	}
	compare(t, said, "sentences.yaml", "errors.yaml", "yaml.yaml", "tables.yaml", "results.yaml")
}

var letters = regexp.MustCompile(`\pL`)

// collect notes the formats that a file says.
func collect(t *testing.T, path string, said map[string]string) {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Base(filepath.Dir(path))
	if folder == "phrase" {
		return
	}
	ast.Inspect(file, func(node ast.Node) bool {
		if text := told(node, folder); text != "" {
			said[text] = path
		}
		call, ok := node.(*ast.CallExpr)
		if !ok {
			return true
		}
		at := says(call.Fun, folder)
		if at < 0 || len(call.Args) <= at {
			return true
		}
		format, ok := literal(call.Args[at])
		if !ok {
			if _, forwards := call.Args[at].(*ast.Ident); !forwards { // a function that says what it is given
				t.Errorf("%s: the format is no literal", files.Position(call.Pos()))
			}
			return true
		}
		said[format] = path
		return true
	})
}

// told is a text without values that is told as it stands, "" for none: the head of a column, the label or the heading of a
// description, and why a job is in trouble.
func told(node ast.Node, folder string) string {
	switch n := node.(type) {
	case *ast.KeyValueExpr:
		key, _ := n.Key.(*ast.Ident)
		if key != nil && (folder == "cli" && key.Name == "header" || folder == "inventory" && key.Name == "Message") {
			return wholeLiteral(n.Value)
		}
	case *ast.CallExpr:
		name := ""
		switch f := n.Fun.(type) {
		case *ast.SelectorExpr:
			name = f.Sel.Name
		case *ast.Ident:
			name = f.Name
		}
		if at, ok := labelled[name]; folder == "cli" && ok && len(n.Args) > at {
			return wholeLiteral(n.Args[at])
		}
	}
	return ""
}

// wholeLiteral is a string that stands in the code as a whole, else "".
func wholeLiteral(expression ast.Expr) string {
	if text, ok := literal(expression); ok {
		return text
	}
	return ""
}

// labelled is which argument of a function is a label or a heading.
var labelled = map[string]int{"line": 0, "lines": 0, "sentence": 0, "painted": 0, "told": 0, "section": 0, "describeRows": 1}

// says is which argument of a function is a format to say, -1 if none is: of phrase.Of, phrase.Errorf, And, and those of a
// folder that forward theirs.
func says(function ast.Expr, folder string) int {
	switch f := function.(type) {
	case *ast.Ident:
		if folder == "diagnosis" && f.Name == "waiting" || folder == "cli" && (f.Name == "usagef" || f.Name == "word") {
			return 0
		}
	case *ast.SelectorExpr:
		pkg, ok := f.X.(*ast.Ident)
		switch {
		case f.Sel.Name == "And", ok && pkg.Name == "phrase" && (f.Sel.Name == "Of" || f.Sel.Name == "Errorf"):
			return 0
		case folder == "cli" && (f.Sel.Name == "say" || f.Sel.Name == "tell"):
			return 0
		case folder == "cli" && f.Sel.Name == "told":
			return 1
		case folder == "workload" && (f.Sel.Name == "errorf" || f.Sel.Name == "warnf"):
			return 1
		}
	}
	return -1
}

// literal is a string as it stands in the code, also in pieces.
func literal(expression ast.Expr) (string, bool) {
	switch e := expression.(type) {
	case *ast.BasicLit:
		value, err := strconv.Unquote(e.Value)
		return value, err == nil
	case *ast.BinaryExpr:
		left, ok := literal(e.X)
		right, also := literal(e.Y)
		return left + right, ok && also
	}
	return "", false
}

var (
	verbs    = regexp.MustCompile(`%(\[\d+\])?[a-z]`)
	indexed  = regexp.MustCompile(`%\[(\d+)\]([a-z])`)
	anyVerb  = regexp.MustCompile(`%`)
	halfWide = regexp.MustCompile(`\p{Han}[,;:?!.]|[,;:?!]\p{Han}`)
)

// TestTheWordsTakeTheSameValues compares the verbs of each translation with those of its key. A translation may take them
// in another order, and then says which it means.
func TestTheWordsTakeTheSameValues(t *testing.T) {
	files, err := filepath.Glob("zh/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("there is no catalogue: %v", err)
	}
	for _, file := range files {
		for key, words := range catalogue(t, filepath.Base(file)) {
			if strings.HasSuffix(file, "help.yaml") || strings.HasSuffix(file, "long.yaml") {
				continue // which have no values
			}
			want, got := valuesOf(t, key), valuesOf(t, words)
			if !slices.Equal(want, got) {
				t.Errorf("%s: %q takes %q, and its translation %q takes %q", file, key, want, words, got)
			}
			if halfWide.MatchString(words) {
				t.Errorf("%s: %q has punctuation of English beside Chinese characters", file, words)
			}
		}
	}
}

// valuesOf are the verbs of a format by the values that they stand for.
func valuesOf(t *testing.T, format string) []string {
	t.Helper()
	format = strings.ReplaceAll(format, "%%", "")
	if len(anyVerb.FindAllString(format, -1)) != len(verbs.FindAllString(format, -1)) {
		t.Errorf("%q has a verb that nobody reads", format)
	}
	out := []string{}
	if numbered := indexed.FindAllStringSubmatch(format, -1); len(numbered) > 0 {
		for _, match := range numbered {
			out = append(out, match[1]+match[2])
		}
		if len(numbered) != len(verbs.FindAllString(format, -1)) {
			t.Errorf("%q numbers some of its verbs only", format)
		}
		slices.Sort(out)
		return slices.Compact(out)
	}
	for i, verb := range verbs.FindAllString(format, -1) {
		out = append(out, strconv.Itoa(i+1)+verb[1:])
	}
	return out
}
