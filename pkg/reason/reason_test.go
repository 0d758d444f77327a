package reason

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"g8s.host/gpu-scheduler/pkg/gpu"
)

// TestWhatIsWrittenIsFound writes every reason as a scheduler does, beside others, and finds it and its values again.
func TestWhatIsWrittenIsFound(t *testing.T) {
	for _, r := range all() {
		for _, text := range append([]Text{r.Text}, r.Also...) {
			var values []any
			var want []string
			for i, kind := range verb.FindAllString(string(text), -1) {
				if kind == "%d" {
					values, want = append(values, i+3), append(want, string(rune('3'+i)))
				} else {
					word := "an x" + string(rune('a'+i))
					values, want = append(values, word), append(want, word)
				}
			}
			said := text.FormatText(values...)
			nodes := 0
			if strings.HasPrefix(said, "node(s)") || strings.HasPrefix(said, "Insufficient") {
				said, nodes = "12 "+said, 12
			}
			if len(want) == 0 {
				said = "3 of another kind, " + said + ", 1 of a third"
			}
			verdict := "0/16 nodes are available: " + said + ". no new claims to deallocate, preemption: 0/16 nodes are available: 16 " + string(text)
			found := FindIn(verdict, []*Reason{r})
			if len(found) != 1 || found[0].Nodes != nodes && nodes > 0 || !slices.Equal(found[0].args, want) {
				t.Errorf("in %q, %q is found as %+v, want %d nodes and %v", verdict, text, found, nodes, want)
			}
		}
	}
}

func TestIn(t *testing.T) {
	tests := map[string]struct {
		text    Text
		message string
		want    []string
		ok      bool
	}{
		"a number":                           {"room for %d of %d members", "gang: room for 2 of 16 members now", []string{"2", "16"}, true},
		"no number":                          {"room for %d of", "room for some of", nil, false},
		"a quoted word with quotes in it":    {"claim %q not found", `claim "a\"b" not found`, []string{`a"b`}, true},
		"a quote that does not end":          {"claim %q not found", `claim "a not found`, nil, false},
		"what looks like it, and then it":    {"room for %d of", "room for some, room for 3 of", []string{"3"}, true},
		"any text to the end":                {"cannot be used: %s", "the PodGroup cannot be used: it has 0 members. preemption: none", []string{"it has 0 members"}, true},
		"any text up to what follows":        {"less %s free than", "less nvidia.com/gpu free than", []string{"nvidia.com/gpu"}, true},
		"nothing where there must be a text": {"less %s free than", "less  free than", nil, false},
		"another message":                    {"less %s free than", "", nil, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got, ok := tc.text.ParseValues(tc.message); ok != tc.ok || ok && !slices.Equal(got, tc.want) {
				t.Errorf("got %q and %v, want %q and %v", got, ok, tc.want, tc.ok)
			}
		})
	}
}

// TestTheCatalogueIsWhole asks of each reason that users are told something, and of texts that no two are one.
func TestTheCatalogueIsWhole(t *testing.T) {
	seen := map[Text]bool{}
	for _, r := range slices.Concat(RefusalReasons, PodReasons, GangReasons, EvictionReasons, ClaimReasons, NodeReasons, PlainNodeReasons) {
		if r.Cause == "" || r.Message == "" || len(r.Advice) == 0 || seen[r.Text] {
			t.Errorf("%q has cause %q, says %q and advises %v; seen before: %v", r.Text, r.Cause, r.Message, r.Advice, seen[r.Text])
		}
		seen[r.Text] = true
	}
	for code := gpu.Fits + 1; code < gpu.Codes; code++ {
		if r := ReasonForCode(code); r.Evictable != (gpu.Reason{Code: code}).IsShortage() || r.Code == "" {
			t.Errorf("%q: evictable %v, code %q", r.Text, r.Evictable, r.Code)
		}
	}
}

// TestEveryReasonIsFoundAgain: gpuctl looks for those of the lists alone, so that each reason with a sentence is in one of them.
func TestEveryReasonIsFoundAgain(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	told, listed := map[string]bool{}, map[string]bool{}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(node ast.Node) bool {
			if vars, ok := node.(*ast.ValueSpec); ok && len(vars.Values) == 1 {
				name, used := vars.Names[0].Name, identifiers(vars.Values[0])
				if told[name] = used["Reason"] && used["Message"]; ast.IsExported(name) && strings.HasSuffix(name, "Reasons") {
					maps.Copy(listed, used)
					delete(told, name)
				}
			}
			return true
		})
	}
	delete(told, "gpuReasons") // PlainNodeReasons has its elements
	for name, is := range told {
		if is && !listed[name] {
			t.Errorf("%s is in no list, such as PodReasons or NodeReasons, so gpuctl does not find it in what a pod says", name)
		}
	}
	if len(listed) < 30 {
		t.Errorf("found %d names in the lists, so this proves nothing", len(listed))
	}
}

// identifiers are the names in an expression.
func identifiers(expression ast.Expr) map[string]bool {
	names := map[string]bool{}
	ast.Inspect(expression, func(node ast.Node) bool {
		if name, ok := node.(*ast.Ident); ok {
			names[name.Name] = true
		}
		return true
	})
	return names
}
