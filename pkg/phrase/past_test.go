package phrase_test

import (
	"go/ast"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"g8s.host/gpu-scheduler/pkg/phrase"
)

// speaking are the folders of which a person reads on a terminal nearly all that stands in the code as a sentence.
var speaking = []string{"cli", "cli/screen", "pkg/drain", "pkg/defrag", "pkg/doctor", "pkg/joblogs", "pkg/slurm", "pkg/supportbundle", "pkg/timelimit"}

// sentence is what people read: two words, or one with a blank for others.
var sentence = regexp.MustCompile(`\pL[\pL',.:;)]*\s+[\pL(]*\pL|\pL[,.:;]?\s$|^\s\pL`)

// unsaid are literals that read like a sentence, and are not said to people, or in no language of theirs.
var unsaid = map[string]string{
	`if test -d "$0"; then echo directory; fi`:                "a shell runs it",
	"command -v bash >/dev/null 2>&1 && exec bash || exec sh": "a shell runs it",
	"getting credentials: ":                                   "client-go says it",
	"HTTP request to an HTTPS server":                         "Go's server says it",
	"exceeded quota":                                          "Kubernetes says it",
	"no exec found for container":                             "kubelet says it",
	"no attaches found for container":                         "kubelet says it",
	"kubectl gpu":                                             "a command",
	"gpuctl get job ":                                         "a command",
	"gpuctl get nodes --pool ":                                "a command",
	"gpuctl describe reservation ":                            "a command",
	"gpuctl describe quota ":                                  "a command",
	"gpuctl get jobs":                                         "a command",
	"gpuctl delete job ":                                      "a command",
	" from ":                                                  "inventory writes it between a variable and its source",
	" -n ":                                                    "a command",
	"helm upgrade --install g8s manifests/chart -n kube-system": "a command",
	" --set server.enabled=true,server.tls.create=true":         "a command",
	" --set ledger.enabled=true,ledger.tls.create=true":         "a command",
	"kind: ":            "YAML",
	"kind: training\n":  "YAML",
	", read-only: true": "YAML",
	"MIG ":              "a name of NVIDIA's",
	"DaemonSet ":        "a kind",
	"node with label ":  "the beginning of a noun, which has words",
	"what the files say differs from what is there": "it is quiet: its exit code says it",
	"a check failed":        "it is quiet: its exit code says it",
	"its metrics":           "an entry of the bundle, which a maintainer reads",
	"the log":               "an entry of the bundle, which a maintainer reads",
	"what gpuctl says":      "an entry of the bundle, which a maintainer reads",
	"what is in the bundle": "an entry of the bundle, which a maintainer reads",
	": either you may not get pods/proxy, or ":                                                 "an entry of the bundle, which a maintainer reads",
	"the program does not learn from the API server who asks. Prometheus may have its metrics": "an entry of the bundle, which a maintainer reads",
}

// written are the files that write scripts, and the variables that have commands of others, or a part of help.
var written = []string{"script.go", "components_script.go", "array.go", "foreignCommands", "editHelp", "bashWordsCall", "fallbackBashWords"}

// TestNothingIsSaidPastTheCatalogue: a sentence in the code of what people read is one of the catalogue, so that it is put into their
// language. The other tests hold what is said by the means of package phrase, and cannot see what goes by them.
func TestNothingIsSaidPastTheCatalogue(t *testing.T) {
	files, err := filepath.Glob("zh/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("there is no catalogue: %v", err)
	}
	words := map[string]bool{}
	for _, file := range files {
		for key := range catalogue(t, filepath.Base(file)) {
			words[key] = true
		}
	}
	used := map[string]bool{}
	for _, folder := range speaking {
		paths, err := filepath.Glob(filepath.Join("../..", folder, "*.go"))
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s has no files: %v", folder, err)
		}
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") || folder == "pkg/slurm" && slices.Contains(written, filepath.Base(path)) {
				continue
			}
			for _, text := range sentencesIn(parsed(t, path)) {
				used[text] = true
				if !words[text] && unsaid[text] == "" {
					t.Errorf("%s says %q, which no catalogue knows: say it by package phrase", path, text)
				}
			}
		}
	}
	for text := range unsaid {
		if !used[text] {
			t.Errorf("nobody says %q any more, which is let by", text)
		}
	}
	if len(used) < 500 {
		t.Errorf("found %d sentences, so the comparison proves nothing", len(used))
	}
	if phrase.Chinese.Translate("error: %s") == "error: %s" {
		t.Error("the catalogue is not read")
	}
}

// helped are the fields whose texts are help: a test of cli has cobra say them and compares each.
var helped = []string{"Use", "Short", "Long", "Example", "Usage", "doc"}

// sentencesIn are the literals of a file that read like a sentence.
func sentencesIn(file *ast.File) []string {
	var out []string
	visit := func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.ImportSpec, *ast.StructType:
			return false // tags, and no texts
		case *ast.KeyValueExpr:
			if key, _ := n.Key.(*ast.Ident); key != nil && slices.Contains(helped, key.Name) {
				return false
			}
		case *ast.AssignStmt:
			if field, _ := n.Lhs[0].(*ast.SelectorExpr); field != nil && slices.Contains(helped, field.Sel.Name) {
				return false
			}
		case *ast.ValueSpec:
			if slices.Contains(written, n.Names[0].Name) {
				return false
			}
		case *ast.CallExpr:
			if silent(n.Fun) {
				return false
			}
		case *ast.BinaryExpr:
			if text, ok := literal(n); ok {
				out = appendSentence(out, text)
				return false
			}
		case *ast.BasicLit:
			if text, ok := literal(n); ok && n.Kind == token.STRING {
				out = appendSentence(out, text)
			}
		}
		return true
	}
	ast.Inspect(file, visit)
	return out
}

func appendSentence(sentences []string, text string) []string {
	if sentence.MatchString(verbs.ReplaceAllString(text, "%")) {
		return append(sentences, text)
	}
	return sentences
}

// quiet are functions that take regular expressions, and those that take the help of flags: a test of cli has cobra say that.
var quiet = regexp.MustCompile(`^MustCompile$|VarP?$|[Ff]lag$`)

// silent reports whether what a function is given is not said by it.
func silent(function ast.Expr) bool {
	switch f := function.(type) {
	case *ast.SelectorExpr:
		return quiet.MatchString(f.Sel.Name)
	case *ast.Ident:
		return quiet.MatchString(f.Name)
	}
	return false
}
