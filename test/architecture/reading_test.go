package architecture

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// readers are the trees that may list nodes and pods, each for a reason. Everything else asks pkg/snapshot, so that one
// place decides how the cluster is read, and what a missing right means.
var readers = map[string]string{
	"pkg/snapshot":           "it is the reader",
	"pkg/agent":              "it watches the one node that it is on",
	"pkg/controller":         "reconcilers read the cache of their manager",
	"pkg/submit":             "what is about to be written is read by the client that writes it",
	"pkg/sandbox":            "it makes the cluster",
	"pkg/simulate/recording": "it writes down all that it is told",
}

// TestOnlySnapshotListsNodesAndPods looks at every call in the trees of the product. Plugins read the scheduler's own
// informers, which are not lists.
func TestOnlySnapshotListsNodesAndPods(t *testing.T) {
	seen := 0
	for _, tree := range []string{"pkg", "cli", "cmd", "plugins"} {
		err := filepath.WalkDir(filepath.Join("../..", tree), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			path, err = filepath.Rel("../..", path)
			if err != nil {
				return err
			}
			for _, call := range listings(t, path) {
				seen++
				if _, ok := under(filepath.ToSlash(path), keys(readers)); !ok {
					t.Errorf("%s lists %s, and may not: pkg/snapshot does", path, call)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if seen == 0 {
		t.Fatal("found no listing at all, so the rule would prove nothing")
	}
}

// listings are the lists of nodes and pods that a file reads: calls such as client.CoreV1().Pods(namespace).List, lists
// that are declared to be read into, and watches of the two made without pkg/snapshot.
func listings(t *testing.T, path string) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("../..", path), nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	ast.Inspect(file, func(node ast.Node) bool {
		selector, ok := node.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		switch name := selector.Sel.Name; name {
		case "NodeList", "PodList":
			if pkg, ok := selector.X.(*ast.Ident); ok && pkg.Name == "corev1" {
				found = append(found, name)
			}
		case "List", "Watch":
			if call, ok := selector.X.(*ast.CallExpr); ok {
				if of, ok := call.Fun.(*ast.SelectorExpr); ok && slices.Contains([]string{"Nodes", "Pods"}, of.Sel.Name) {
					found = append(found, of.Sel.Name)
				}
			}
		case "NewFilteredListWatchFromClient", "NewListWatchFromClient":
			found = append(found, name)
		}
		return true
	})
	return found
}

func keys(m map[string]string) []string {
	var out []string
	for key := range m {
		out = append(out, key)
	}
	return out
}

// TestReasonsAreInTheCatalogue looks for texts of reasons in plugins, which take them from pkg/reason: gpuctl finds there
// what they have written.
func TestReasonsAreInTheCatalogue(t *testing.T) {
	seen := 0
	err := filepath.WalkDir("../../plugins", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.BasicLit:
				for _, begin := range []string{`"node(s) `, `"gang: `, `"no node `} {
					if strings.HasPrefix(node.Value, begin) {
						t.Errorf("%s has the reason %s itself", path, node.Value)
					}
				}
			case *ast.Ident:
				if node.Name == "reason" {
					seen++
				}
			}
			return true
		})
		return nil
	})
	if err != nil || seen == 0 {
		t.Fatalf("found %d uses of the catalogue, error %v", seen, err)
	}
}
