package workload

import (
	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"g8s.host/gpu-scheduler/pkg/phrase"
)

// environmentVariables is a value that accepts the three documented forms: a list of name and value (or value-from), a list of NAME: value, and a
// section of NAME: value.
func environmentVariables(to *[]corev1.EnvVar) value {
	return value{describe: "list of name and value, or section", wrap: variablesSchema, decode: func(d *decoder, node *yaml.Node, path string) {
		e := &envDecoder{decoder: d, to: to, seen: map[string]*yaml.Node{}}
		if node.Kind == yaml.MappingNode {
			e.decodePairs(node, path)
			return
		}
		d.decodeList(node, path, e.decodeListEntry)
	}}
}

// envDecoder collects variables. A name may appear only once.
type envDecoder struct {
	*decoder
	to   *[]corev1.EnvVar
	seen map[string]*yaml.Node
}

// decodeListEntry decodes an entry of the list form.
func (e *envDecoder) decodeListEntry(_ int, node *yaml.Node, path string) {
	if node.Kind == yaml.MappingNode && !hasKey(node, "name") {
		e.decodePairs(node, path)
		return
	}
	var v corev1.EnvVar
	e.decodeSection(node, path, envFields(&v))
	if node.Kind != yaml.MappingNode {
		return
	}
	e.addVariable(node, v)
}

// decodePairs decodes NAME: value.
func (e *envDecoder) decodePairs(node *yaml.Node, path string) {
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, val := node.Content[i], node.Content[i+1]
		name, err := envName(key.Value)
		full := joinPath(path, truncateText(key.Value))
		switch {
		case key.Kind != yaml.ScalarNode:
			e.errorf(key, "%s: the name of a variable must be plain text, not %s", path, nodeWord(key))
			continue
		case err != nil:
			e.errorf(key, "%s: %q %v", path, truncateText(key.Value), err)
		case isNull(val):
			e.errorf(key, "%s has no value: write \"\" for an empty one", full)
		}
		v := corev1.EnvVar{Name: name}
		scalarValue(&v.Value, "text", anyText).decode(e.decoder, val, full)
		e.addVariable(key, v)
	}
}

func (e *envDecoder) addVariable(at *yaml.Node, v corev1.EnvVar) {
	if first := e.seen[v.Name]; first != nil && v.Name != "" {
		e.errorf(at, "environment variable %s is set twice: first on line %d", v.Name, e.source.first+first.Line)
	}
	e.seen[v.Name] = at
	*e.to = append(*e.to, v)
}

func envName(s string) (string, error) {
	if len(validation.IsEnvVarName(s)) > 0 {
		return "", phrase.Errorf("is not the name of an environment variable: use letters, digits and '_', beginning with a letter or '_'")
	}
	return s, nil
}

func envFields(v *corev1.EnvVar) fields {
	return fields{
		{name: "name", required: true, value: scalarValue(&v.Name, "text", envName), example: "OMP_NUM_THREADS",
			doc: "The name of the variable."},
		{name: "value", value: scalarValue(&v.Value, "text", anyText), def: "empty", example: `"8"`,
			doc: "Its value. Numbers and booleans are taken as they are written."},
		{name: "value-from", excludes: []string{"value"}, value: sectionValue(envSourceFields(v)),
			doc: "Where the value comes from, instead of value. Exactly one source."},
	}
}
