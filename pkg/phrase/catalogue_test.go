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

	"g8s.host/gpu-scheduler/pkg/phrase"
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
	for _, r := range slices.Concat(reason.RefusalReasons, reason.PodReasons, reason.GangReasons, reason.EvictionReasons, reason.ClaimReasons, reason.NodeReasons, reason.PlainNodeReasons) {
		said[r.Message] = "pkg/reason"
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
	compare(t, said, sayings...)
}

// sayings are the files of the catalogue with what Go code says by its formats.
var sayings = []string{
	"sentences.yaml", "errors.yaml", "yaml.yaml", "tables.yaml", "results.yaml", "doctor.yaml", "moves.yaml", "notes.yaml", "slurm.yaml",
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

// keyed are the fields of a folder whose text is told as it stands: the head of a column, why a job is in trouble, the name of a
// check and what a right is for, and why an option of Slurm is left out.
var keyed = map[string][]string{"cli": {"header"}, "inventory": {"Message"}, "doctor": {"Name", "For"}, "slurm": {"note"}}

// constants are the names of constants of a folder that are told as they stand, or the type of all of them.
var constants = map[string]*regexp.Regexp{
	"doctor": regexp.MustCompile(`^name$`), "slurm": regexp.MustCompile(`Note$`), "snapshot": regexp.MustCompile(`^Part[A-Z]`),
	"cli": regexp.MustCompile(`^migHeader$`),
}

// told is a text without values that is told as it stands, "" for none: also the label or the heading of a description.
func told(node ast.Node, folder string) string {
	switch n := node.(type) {
	case *ast.KeyValueExpr:
		key, _ := n.Key.(*ast.Ident)
		if key != nil && slices.Contains(keyed[folder], key.Name) {
			return wholeLiteral(n.Value)
		}
	case *ast.ValueSpec:
		if names := constants[folder]; names != nil && len(n.Names) == 1 && len(n.Values) == 1 && names.MatchString(n.Names[0].Name) {
			return wholeLiteral(n.Values[0])
		}
	case *ast.CallExpr:
		name := ""
		switch f := n.Fun.(type) {
		case *ast.SelectorExpr:
			name = f.Sel.Name
		case *ast.Ident:
			name = f.Name
		}
		at, ok := labelled[folder+"."+name]
		if ok && len(n.Args) > at {
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

// labelled is which argument of a function of a folder is a label, a heading, or what something is.
var labelled = map[string]int{
	"cli.writeField": 0, "cli.writeLines": 0, "cli.writeWrappedField": 0, "cli.writeColoredField": 0, "cli.writeFieldf": 0, "cli.writeText": 0,
	"cli.writeSection": 0, "cli.describeRows": 1,
	"supportbundle.newItem": 1, "supportbundle.newLabelledItem": 1,
}

// says is which argument of a function is a format to say, -1 if none is: of phrase.Of, phrase.Errorf, And, and those of a
// folder that forward theirs.
func says(function ast.Expr, folder string) int {
	switch f := function.(type) {
	case *ast.Ident:
		if folder == "diagnosis" && f.Name == "waitStep" || folder == "cli" && (f.Name == "usageErrorf" || f.Name == "markWord") {
			return 0
		}
	case *ast.SelectorExpr:
		pkg, ok := f.X.(*ast.Ident)
		switch {
		case f.Sel.Name == "Addf", ok && pkg.Name == "phrase" && (f.Sel.Name == "Textf" || f.Sel.Name == "Errorf"):
			return 0
		case folder == "cli" && (f.Sel.Name == "printOut" || f.Sel.Name == "printStatus" || f.Sel.Name == "printErr"):
			return 0
		case folder == "cli" && f.Sel.Name == "writeFieldf":
			return 1
		case folder == "slurm" && f.Sel.Name == "addNote":
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

// valueless are the files whose texts have no values: a percent sign in them is one.
var valueless = []string{"help.yaml", "long.yaml", "fields.yaml"}

// TestTheWordsTakeTheSameValues compares the verbs of each translation with those of its key. A translation may take them
// in another order, and then says which it means.
func TestTheWordsTakeTheSameValues(t *testing.T) {
	files, err := filepath.Glob("zh/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("there is no catalogue: %v", err)
	}
	for _, file := range files {
		for key, words := range catalogue(t, filepath.Base(file)) {
			if !slices.Contains(valueless, filepath.Base(file)) {
				want, got := valuesOf(t, key), valuesOf(t, words)
				if !slices.Equal(want, got) {
					t.Errorf("%s: %q takes %q, and its translation %q takes %q", file, key, want, words, got)
				}
			}
			if filepath.Base(file) != "help.yaml" && filepath.Base(file) != "long.yaml" && halfWide.MatchString(words) {
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

// writers are the folders whose programs write messages that gpuctl reads again.
var writers = []string{"gpu", "diagnosis", "inventory", "gpuquota", "nodestate", "jobplan", "supportbundle", "controller/pools", "controller/spot", "controller/idle", "controller/advice"}

// TestMessagesAreFoundAgain: what those who write messages give as one is a sentence of the catalogue, and the catalogue has none that
// nobody writes.
func TestMessagesAreFoundAgain(t *testing.T) {
	var literals []string
	for _, folder := range writers {
		files, err := filepath.Glob(filepath.Join("..", folder, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s has no files: %v", folder, err)
		}
		for _, path := range files {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			ast.Inspect(parsed(t, path), func(node ast.Node) bool {
				if text, ok := literalOf(node); ok {
					literals = append(literals, text)
				}
				for _, format := range messagesOf(node) {
					if !isFound(format) {
						t.Errorf("%s writes a message that has no words: %q", path, format)
					}
				}
				return true
			})
		}
	}
	for format := range catalogue(t, "messages.yaml") {
		parted := verbs.ReplaceAllString(strings.ReplaceAll(format, " of ", "\x00"), "\x00")
		pieces := strings.FieldsFunc(parted, func(r rune) bool { return strings.ContainsRune("\x00,;:()", r) })
		for _, piece := range pieces {
			piece = strings.TrimSpace(piece)
			if !slices.ContainsFunc(literals, func(text string) bool { return strings.Contains(text, piece) }) {
				t.Errorf("nobody writes %q of the message %q", piece, format)
			}
		}
	}
}

// isFound reports whether gpuctl finds what a format makes, whatever of the usual stands in place of its texts.
func isFound(format string) bool {
	for _, value := range []string{"x", "pool x", "CPU", "memory", "x has ended"} {
		sample := strings.NewReplacer("%d", "7", "%g", "2.5", "%s", value, "%q", strconv.Quote(value), "%%", "%").Replace(format)
		if phrase.Chinese.TranslateMessage(sample) != sample {
			return true
		}
	}
	return false
}

// messagesOf are the formats that a node makes a message of.
func messagesOf(node ast.Node) []string {
	var value ast.Expr
	switch n := node.(type) {
	case *ast.KeyValueExpr:
		if key, _ := n.Key.(*ast.Ident); key != nil && key.Name == "Message" {
			value = n.Value
		}
	case *ast.AssignStmt:
		for i, left := range n.Lhs {
			if field, _ := left.(*ast.SelectorExpr); field != nil && field.Sel.Name == "Message" && i < len(n.Rhs) {
				value = n.Rhs[i]
			}
		}
	}
	if call, _ := value.(*ast.CallExpr); call != nil && len(call.Args) > 0 {
		if f, _ := call.Fun.(*ast.SelectorExpr); f != nil && f.Sel.Name == "Sprintf" {
			value = call.Args[0]
		}
	}
	if text, ok := literal(value); ok && text != "" {
		return []string{strings.TrimPrefix(text, "; ")}
	}
	return nil
}

// literalOf is a string that stands in the code, in pieces or not.
func literalOf(node ast.Node) (string, bool) {
	expression, ok := node.(ast.Expr)
	if !ok {
		return "", false
	}
	return literal(expression)
}

func parsed(t *testing.T, path string) *ast.File {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return file
}
