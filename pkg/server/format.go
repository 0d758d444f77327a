package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"

	"github.com/danielgtaylor/huma/v2"
	strictjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"g8s.host/gpu-scheduler/pkg/safeyaml"
	"g8s.host/gpu-scheduler/pkg/serving"
)

const (
	jsonType   = "application/json"
	yamlType   = "application/yaml"
	streamType = "text/event-stream"
)

// formats are those of bodies: JSON, and YAML for people.
func formats() map[string]huma.Format {
	asYAML := huma.Format{
		Marshal:   func(w io.Writer, v any) error { return inTurn(w, v, encodeYAML) },
		Unmarshal: decodeYAML,
	}
	asJSON := huma.Format{
		Marshal:   func(w io.Writer, v any) error { return inTurn(w, v, encodeJSON) },
		Unmarshal: decodeJSON,
	}
	return map[string]huma.Format{jsonType: asJSON, "json": asJSON, yamlType: asYAML, "yaml": asYAML}
}

// yamlBody is what a request in YAML may hold: no aliases, above all.
var yamlBody = safeyaml.Limits{Values: maxValues, Depth: maxDepth, NoAliases: true}

// maxSeparators bounds what a parser makes of a request in YAML before anything can be counted: each value is some
// hundred times the memory of its text. Ordinary lines are as long as the 35 bytes that are left for each of a large body.
const maxSeparators = 60_000

// separators is how many values a text in YAML may have.
func separators(text []byte) int {
	n := 0
	for _, separator := range []string{"\n", ",", "[", "{"} {
		n += bytes.Count(text, []byte(separator))
	}
	return n
}

func decodeYAML(data []byte, v any) error {
	if body, ok := documentBody(data, isYAMLDocument(data)); ok {
		return json.Unmarshal(body, v)
	}
	return safeyaml.UnmarshalStrict(data, v, yamlBody)
}

// decodeJSON reads JSON, in which a name that is given twice is an error: one of the two would be left out. huma reads
// each body into a value of any type first, where that is found.
func decodeJSON(data []byte, v any) error {
	if body, ok := documentBody(data, isJSONDocument(data)); ok {
		return json.Unmarshal(body, v)
	}
	into, any := v.(*any)
	if !any {
		return json.Unmarshal(data, v)
	}
	problems, err := strictjson.UnmarshalStrict(data, into, strictjson.DisallowDuplicateFields)
	return errors.Join(append(problems, err)...)
}

// documentBody is a document of gpuctl as the body that brings one. Every route that takes yamlContent takes the document
// itself, too, as no body of ours has a kind.
func documentBody(data []byte, is bool) ([]byte, bool) {
	if !is {
		return nil, false
	}
	body, err := json.Marshal(map[string]string{"yamlContent": string(data)})
	return body, err == nil
}

// Keys at the beginning of a line of YAML, which is where those of a document stand.
var (
	kindKey    = regexp.MustCompile(`(?m)^["']?kind["']?[ \t]*:`)
	contentKey = regexp.MustCompile(`(?m)^["']?yamlContents?["']?[ \t]*:`)
)

func isYAMLDocument(data []byte) bool { return kindKey.Match(data) && !contentKey.Match(data) }

// isJSONDocument reports whether JSON is a document of gpuctl: JSON is YAML.
func isJSONDocument(data []byte) bool {
	if !bytes.Contains(data, []byte(`"kind"`)) {
		return false
	}
	var body map[string]json.RawMessage
	if json.Unmarshal(data, &body) != nil {
		return false
	}
	_, content := body["yamlContent"]
	_, contents := body["yamlContents"]
	return body["kind"] != nil && !content && !contents
}

// inTurn encodes an answer in the turn of its caller. What no caller waits for is encoded at once.
func inTurn(w io.Writer, v any, encode func(io.Writer, any) error) error {
	out, ok := w.(http.ResponseWriter)
	if !ok {
		return encode(w, v)
	}
	return serving.InTurn(out, func(w io.Writer) error { return encode(w, v) })
}

func encodeYAML(w io.Writer, v any) error {
	data, err := yaml.Marshal(v)
	if err != nil {
		return fmt.Errorf("encoding YAML: %w", err)
	}
	_, err = w.Write(data)
	return err
}

func encodeJSON(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(v)
}
