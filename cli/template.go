package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"k8s.io/client-go/util/jsonpath"

	"g8s.host/gpu-scheduler/pkg/phrase"
)

// Output formats that take a template after their name, as kubectl's do.
const (
	outputJSONPath      = "jsonpath"
	outputCustomColumns = "custom-columns"
)

// untypedJSON returns a value as the maps and lists of its JSON, on which paths are evaluated.
func untypedJSON(value any) (any, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return nil, phrase.Errorf("encoding the result: %w", err)
	}
	var out any
	if err := json.Unmarshal(data, &out); err != nil {
		return nil, phrase.Errorf("encoding the result: %w", err)
	}
	return out, nil
}

// parsePath parses a JSONPath, whose braces and first dot are optional.
func parsePath(path string) (*jsonpath.JSONPath, error) {
	if !strings.Contains(path, "{") {
		path = "{." + strings.TrimPrefix(path, ".") + "}"
	}
	parsed := jsonpath.New("path").AllowMissingKeys(true)
	if err := parsed.Parse(path); err != nil {
		return nil, usageErrorf("JSONPath %q: %w", path, err)
	}
	return parsed, nil
}

// writeJSONPath writes what a path selects in a value.
func writeJSONPath(out io.Writer, path string, value any) error {
	parsed, err := parsePath(path)
	if err != nil {
		return err
	}
	tree, err := untypedJSON(value)
	if err != nil {
		return err
	}
	if err := parsed.Execute(out, tree); err != nil {
		return usageErrorf("JSONPath %q: %w", path, err)
	}
	fmt.Fprintln(out)
	return nil
}

// evaluatePath returns what a path selects in the tree of a row, as text; "" if there is nothing.
func evaluatePath(path *jsonpath.JSONPath, tree any) (string, error) {
	var out bytes.Buffer
	if err := path.Execute(&out, tree); err != nil {
		return "", usageErrorf("evaluating a JSONPath: %w", err)
	}
	return out.String(), nil
}

// customColumns parses "HEADER:PATH,…" as columns over the trees of rows.
func customColumns(spec string) ([]column[any], error) {
	var out []column[any]
	for part := range strings.SplitSeq(spec, ",") {
		header, path, ok := strings.Cut(part, ":")
		if !ok || header == "" || path == "" {
			return nil, usageErrorf("custom-columns: %q is not HEADER:JSONPATH", part)
		}
		parsed, err := parsePath(path)
		if err != nil {
			return nil, err
		}
		out = append(out, column[any]{header: header, value: func(tree any) string {
			text, err := evaluatePath(parsed, tree)
			if err != nil {
				return ""
			}
			return text
		}})
	}
	return out, nil
}

// rowTrees converts rows to trees.
func rowTrees[T any](rows []T) ([]any, error) {
	out := make([]any, len(rows))
	for i, row := range rows {
		tree, err := untypedJSON(row)
		if err != nil {
			return nil, err
		}
		out[i] = tree
	}
	return out, nil
}

// sortBy sorts rows by what a path selects: as numbers if both are numbers, else as texts. Equal rows keep their order.
func sortBy[T any](rows []T, path string) ([]T, error) {
	parsed, err := parsePath(path)
	if err != nil {
		return nil, err
	}
	trees, err := rowTrees(rows)
	if err != nil {
		return nil, err
	}
	type keyed struct {
		row T
		key string
	}
	all := make([]keyed, len(rows))
	found := false
	for i, row := range rows {
		key, err := evaluatePath(parsed, trees[i])
		if err != nil {
			return nil, err
		}
		found = found || key != ""
		all[i] = keyed{row, key}
	}
	if !found && len(rows) > 0 {
		return nil, usageErrorf("--sort-by %q: no row has that field. -o json shows the fields", path)
	}
	slices.SortStableFunc(all, func(a, b keyed) int { return compareTexts(a.key, b.key) })
	out := make([]T, len(all))
	for i := range all {
		out[i] = all[i].row
	}
	return out, nil
}

func compareTexts(a, b string) int {
	x, errX := strconv.ParseFloat(a, 64)
	y, errY := strconv.ParseFloat(b, 64)
	if errX == nil && errY == nil {
		return cmp.Compare(x, y)
	}
	return cmp.Compare(a, b)
}
