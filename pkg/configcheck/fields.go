package configcheck

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	kubeschedulerv1 "k8s.io/kube-scheduler/config/v1"

	"g8s.host/gpu-scheduler/pkg/spelling"
)

// Problem is a mistake in a file with its position.
type Problem struct {
	// Line counts from 1.
	Line    int    `json:"line"`
	Path    string `json:"path"`
	Message string `json:"message"`
}

func (p Problem) String() string { return fmt.Sprintf("line %d: %s: %s", p.Line, p.Path, p.Message) }

// walker finds the keys of a document for which its Go type has no field. Kubernetes' decoder names only the first few, without a line or a
// suggestion.
type walker struct {
	// argsOf returns the type of a plugin's arguments, nil if it is unknown.
	argsOf   func(plugin string) reflect.Type
	problems []Problem
}

func (w *walker) walkNode(node *yaml.Node, of reflect.Type, path string) {
	for of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	if reflect.PointerTo(of).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return // it has its own decoder
	}
	switch {
	case node.Kind == yaml.MappingNode && of.Kind() == reflect.Struct:
		w.walkStruct(node, of, path)
	case node.Kind == yaml.MappingNode && of.Kind() == reflect.Map:
		for i := 0; i+1 < len(node.Content); i += 2 {
			w.walkNode(node.Content[i+1], of.Elem(), joinPath(path, node.Content[i].Value))
		}
	case node.Kind == yaml.SequenceNode && of.Kind() == reflect.Slice:
		for i, entry := range node.Content {
			w.walkNode(entry, of.Elem(), fmt.Sprintf("%s[%d]", path, i))
		}
	}
}

func (w *walker) walkStruct(node *yaml.Node, of reflect.Type, path string) {
	fields := map[string]reflect.Type{}
	collectFields(of, fields)
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		field, known := fields[key.Value]
		switch {
		case key.Tag == "!!merge":
			w.walkNode(value, of, path)
		case !known:
			w.problems = append(w.problems, Problem{key.Line, joinPath(path, key.Value), "unknown field" + suggestField(key.Value, fields)})
		case of == reflect.TypeFor[kubeschedulerv1.PluginConfig]() && key.Value == "args":
			if args := w.argsOf(mappingValue(node, "name")); args != nil {
				w.walkNode(value, args, joinPath(path, key.Value))
			}
		default:
			w.walkNode(value, field, joinPath(path, key.Value))
		}
	}
}

// collectFields collects the fields of a struct by their YAML names, including those of inlined structs.
func collectFields(of reflect.Type, into map[string]reflect.Type) {
	for i := range of.NumField() {
		field := of.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "-" || !field.IsExported():
		case name == "" && (field.Anonymous || strings.Contains(options, "inline")):
			collectFields(field.Type, into)
		default:
			into[name] = field.Type
		}
	}
}

func suggestField(name string, fields map[string]reflect.Type) string {
	var known []string
	for field := range fields {
		known = append(known, field)
	}
	slices.Sort(known)
	nearest := slices.SortedStableFunc(slices.Values(known), func(a, b string) int { return cmp.Compare(len(a), len(b)) })
	if hint := spelling.DidYouMean(name, nearest); len(hint) > 0 { // among equals the shortest: plugin is probably plugins
		return hint.String()
	}
	return ", want one of " + strings.Join(known, ", ")
}

// mappingValue returns the text of a key of a section, "" if it has none.
func mappingValue(node *yaml.Node, key string) string {
	if value := mappingField(node, key); value != nil {
		return value.Value
	}
	return ""
}

func joinPath(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
