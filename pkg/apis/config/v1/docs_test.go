package v1

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestDocumentationMatchesTypes holds the tables of docs/configuration.md to the types: every argument has a
// row with its type and default, and every row is an argument.
func TestDocumentationMatchesTypes(t *testing.T) {
	data, err := os.ReadFile("../../../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	filter, score := &GPUFilterArgs{}, &GPUScoreArgs{}
	filter.SetDefaults()
	score.SetDefaults()
	for plugin, args := range map[string]any{"GPUFilter": *filter, "GPUScore": *score} {
		want := map[string]string{}
		describe(reflect.ValueOf(args), "", want)
		got := documented(string(data), plugin)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("arguments of %s as \"type, default\" (-types +docs/configuration.md):\n%s", plugin, diff)
		}
	}
}

// describe collects "type, default" by path for every field that holds no further fields.
func describe(value reflect.Value, path string, into map[string]string) {
	for i := range value.NumField() {
		name, _, _ := strings.Cut(value.Type().Field(i).Tag.Get("json"), ",")
		if name == "" {
			continue // metav1.TypeMeta, which nobody writes
		}
		field := value.Field(i)
		if field.Kind() == reflect.Pointer {
			field = field.Elem()
		}
		switch at := path + name; {
		case field.Type() == reflect.TypeFor[metav1.Duration]():
			into[at] = "duration, " + strings.TrimSuffix(field.Interface().(metav1.Duration).Duration.String(), "0m0s")
		case field.Kind() == reflect.Struct:
			describe(field, at+".", into)
		case field.Kind() == reflect.Slice && field.Type().Elem().Kind() == reflect.Struct:
			describeList(field, at+"[].", into)
		case field.Kind() == reflect.Slice:
			into[at] = "list of strings, none"
		case field.Kind() == reflect.Int32:
			into[at] = fmt.Sprintf("integer, %d", field.Int())
		case field.Len() == 0:
			into[at] = "string, none"
		default:
			into[at] = "string, " + field.String()
		}
	}
}

// describeList describes the fields of a list's entries; the default of a field is that of each entry in turn.
func describeList(list reflect.Value, path string, into map[string]string) {
	describe(reflect.New(list.Type().Elem()).Elem(), path, into)
	for i := range list.Len() {
		entry := map[string]string{}
		describe(list.Index(i), path, entry)
		for at, text := range entry {
			kind, value, _ := strings.Cut(text, ", ")
			if i > 0 {
				_, before, _ := strings.Cut(into[at], ", ")
				value = before + " / " + value
			}
			into[at] = kind + ", " + value
		}
	}
}

// documented reads the table of a plugin's section: | `path` | type | range | default | meaning |.
func documented(page, plugin string) map[string]string {
	_, section, _ := strings.Cut(page, "\n## "+plugin+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	rows := map[string]string{}
	for line := range strings.Lines(section) {
		cells := strings.Split(line, "|")
		if len(cells) < 6 || !strings.HasPrefix(cells[1], " `") {
			continue
		}
		rows[strings.Trim(cells[1], " `")] = strings.TrimSpace(cells[2]) + ", " + strings.TrimSpace(cells[4])
	}
	return rows
}
