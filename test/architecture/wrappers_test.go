package architecture

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// adds are types that embed an interface of Kubernetes and change nothing of it.
var adds = map[string]string{
	"pkg/controller/evictions.Client": "it adds Send",
	"pkg/simulate/recording.watches":  "it adds WatchWithContext, which calls Watch",
}

// wrapper is a type of ours with methods that embeds an interface of Kubernetes.
type wrapper struct{ folder, name, path, embeds string }

// TestWrappersOfKubernetesAreChecked: a release of Kubernetes may add methods to an interface that a type of ours embeds, and the
// compiler takes them for handled.
func TestWrappersOfKubernetesAreChecked(t *testing.T) {
	seen, all := 0, wrappers(t)
	folders := foldersOf(t, all)
	for _, w := range all {
		if adds[w.folder+"."+w.name] != "" {
			seen++
			continue
		}
		if !isInterface(t, folders[w.path], w.embeds) {
			continue
		}
		seen++
		if !testsContain(t, w.folder, "wrapped.Check["+w.name+", ") {
			t.Errorf("%s.%s embeds the interface %s.%s: have a test beside it call wrapped.Check", w.folder, w.name, w.path, w.embeds)
		}
	}
	if seen < 10 {
		t.Errorf("%d types were looked at, so the test proves nothing", seen)
	}
}

func wrappers(t *testing.T) (found []wrapper) {
	t.Helper()
	for _, tree := range []string{"pkg", "cli", "cmd", "plugins"} {
		methods := map[string]bool{} // FOLDER.TYPE
		var candidates []wrapper
		err := filepath.WalkDir(filepath.Join("../..", tree), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			folder, err := filepath.Rel("../..", filepath.Dir(path))
			if err != nil {
				return err
			}
			folder = filepath.ToSlash(folder)
			for _, declaration := range file.Decls {
				switch declaration := declaration.(type) {
				case *ast.FuncDecl:
					if declaration.Recv != nil {
						methods[folder+"."+baseOf(declaration.Recv.List[0].Type)] = true
					}
				case *ast.GenDecl:
					for _, spec := range declaration.Specs {
						candidates = append(candidates, embedders(folder, file, spec)...)
					}
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range candidates {
			if methods[w.folder+"."+w.name] {
				found = append(found, w)
			}
		}
	}
	return found
}

// embedders is what a struct embeds of Kubernetes.
func embedders(folder string, file *ast.File, spec ast.Spec) (found []wrapper) {
	of, ok := spec.(*ast.TypeSpec)
	if !ok {
		return nil
	}
	structure, ok := of.Type.(*ast.StructType)
	if !ok {
		return nil
	}
	for _, field := range structure.Fields.List {
		selector, ok := field.Type.(*ast.SelectorExpr)
		if !ok || len(field.Names) > 0 {
			continue
		}
		if path := importOf(file, selector.X); strings.HasPrefix(path, "k8s.io/") || strings.HasPrefix(path, "sigs.k8s.io/") {
			found = append(found, wrapper{folder, of.Name.Name, path, selector.Sel.Name})
		}
	}
	return found
}

// importOf is the path of the package that a name stands for, in a file that gives it another name or names it by its last word.
func importOf(file *ast.File, name ast.Expr) string {
	is, ok := name.(*ast.Ident)
	if !ok {
		return ""
	}
	for _, spec := range file.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err == nil && (spec.Name != nil && spec.Name.Name == is.Name || spec.Name == nil && filepath.Base(path) == is.Name) {
			return path
		}
	}
	return ""
}

// baseOf is the name of the type of a receiver.
func baseOf(receiver ast.Expr) string {
	switch receiver := receiver.(type) {
	case *ast.StarExpr:
		return baseOf(receiver.X)
	case *ast.IndexExpr:
		return baseOf(receiver.X)
	case *ast.Ident:
		return receiver.Name
	}
	return ""
}

// foldersOf are the folders of the packages that types embed something of.
func foldersOf(t *testing.T, all []wrapper) map[string]string {
	t.Helper()
	args, folders := []string{"-f", "{{.ImportPath}} {{.Dir}}"}, map[string]string{}
	for _, w := range all {
		args = append(args, w.path)
	}
	for _, line := range list(t, args...) {
		path, folder, _ := strings.Cut(line, " ")
		folders[path] = folder
	}
	return folders
}

// isInterface looks into the sources of a package whether a type is one.
func isInterface(t *testing.T, folder, name string) (is bool) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, source := range files {
		file, err := parser.ParseFile(token.NewFileSet(), source, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(node ast.Node) bool {
			if of, ok := node.(*ast.TypeSpec); ok && of.Name.Name == name {
				_, is = of.Type.(*ast.InterfaceType)
			}
			return !is
		})
		if is {
			return true
		}
	}
	return false
}

// testsContain reports whether a test of a folder has a text.
func testsContain(t *testing.T, folder, text string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("../..", folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(files, func(path string) bool {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(string(data), text)
	})
}
