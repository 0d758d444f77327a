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

// bodyFormats returns the body formats: JSON, and YAML for people.
func bodyFormats() map[string]huma.Format {
	asYAML := huma.Format{
		Marshal:   func(w io.Writer, v any) error { return encodeInSlot(w, v, encodeYAML) },
		Unmarshal: decodeYAML,
	}
	asJSON := huma.Format{
		Marshal:   func(w io.Writer, v any) error { return encodeInSlot(w, v, encodeJSON) },
		Unmarshal: decodeJSON,
	}
	return map[string]huma.Format{jsonType: asJSON, "json": asJSON, yamlType: asYAML, "yaml": asYAML}
}

// yamlBody limits a YAML request. Most important, it forbids aliases.
var yamlBody = safeyaml.Limits{Values: maxValues, Depth: maxDepth, NoAliases: true}

// maxSeparators bounds the memory of a YAML parser before values can be counted: each value takes some hundred times the memory of its text. It
// allows an average of 35 bytes per value in a large body, which is the length of an ordinary line.
const maxSeparators = 60_000

// countSeparators returns an upper bound of the values in a YAML text.
func countSeparators(text []byte) int {
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

// decodeJSON decodes JSON and rejects duplicate names, because one of the two values would be lost. huma decodes each body into an untyped value
// first, where duplicates are found.
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

// documentBody wraps a gpuctl document into a body with yamlContent. Routes that take yamlContent thus also take the document itself. No body of ours
// has a field kind.
func documentBody(data []byte, is bool) ([]byte, bool) {
	if !is {
		return nil, false
	}
	body, err := json.Marshal(map[string]string{"yamlContent": string(data)})
	return body, err == nil
}

// Keys at the beginning of a YAML line, where the top-level keys of a document stand.
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

// encodeInSlot encodes an answer in a slot of its caller. It encodes at once if no caller waits.
func encodeInSlot(w io.Writer, v any, encode func(io.Writer, any) error) error {
	out, ok := w.(http.ResponseWriter)
	if !ok {
		return encode(w, v)
	}
	return serving.EncodeInTurn(out, func(w io.Writer) error { return encode(w, v) })
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
