package architecture

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// TestOnlyGangReadsTheLabelOfAPodGroup keeps one reading of which pods start together: who reads the label alone misses the gangs of operators, and those
// of Kubernetes.
func TestOnlyGangReadsTheLabelOfAPodGroup(t *testing.T) {
	seen := false
	for _, tree := range []string{"pkg", "cli", "cmd", "plugins"} {
		err := filepath.WalkDir(filepath.Join("../..", tree), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			path, err = filepath.Rel("../..", path)
			if err != nil || !namesPodGroupLabel(t, path) {
				return err
			}
			switch folder := filepath.ToSlash(filepath.Dir(path)); folder {
			case "pkg/gang":
				seen = true
			case "pkg/apis/g8s/v1alpha1": // it has the name
			default:
				t.Errorf("%s reads the label %s, and may not: pkg/gang does", path, names.LabelPodGroup)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if !seen {
		t.Fatal("pkg/gang does not read it either, so the rule would prove nothing")
	}
}

// namesPodGroupLabel reports whether a file spells the label, or names its constant.
func namesPodGroupLabel(t *testing.T, path string) (found bool) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("../..", path), nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.Ident:
			found = found || node.Name == "LabelPodGroup"
		case *ast.BasicLit:
			found = found || node.Kind == token.STRING && strings.Contains(node.Value, names.LabelPodGroup)
		}
		return !found
	})
	return found
}
