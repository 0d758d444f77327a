package cli

import (
	"os"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"g8s.host/gpu-scheduler/cli/monospace"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// plainDefaults are defaults in a word that stand for no value of the field.
var plainDefaults = []string{"none", "any", "all", "never", "empty", "everybody", "forever", "unbounded"}

// TestTheCatalogueHasTheFields compares what the fields of the YAML say of themselves with the Chinese catalogue, both ways; a default that
// is a value of the field stays as it is.
func TestTheCatalogueHasTheFields(t *testing.T) {
	words := map[string]string{}
	data, err := os.ReadFile("../pkg/phrase/zh/fields.yaml")
	if err == nil {
		err = yaml.Unmarshal(data, &words)
	}
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]bool{}
	for _, kind := range workload.Kinds {
		for _, field := range workload.Fields(kind) {
			said[field.Doc], said[field.Default] = true, true
			if phrase.Chinese.Translate(field.Doc) == field.Doc {
				t.Errorf("the catalogue has no words for what %s %s says: %q", kind, field.Path, field.Doc)
			}
			if key := field.TypeKey(); key != "" {
				if said[key] = true; phrase.Chinese.Translate(key) == key {
					t.Errorf("the catalogue has no words for the type %q of %s %s", key, kind, field.Path)
				}
			}
			isText := strings.Contains(field.Default, " ") || slices.Contains(plainDefaults, field.Default)
			if has := phrase.Chinese.Translate(field.Default) != field.Default; has != isText {
				t.Errorf("the default %q of %s %s has words: %t, want %t", field.Default, kind, field.Path, has, isText)
			}
		}
	}
	for key := range words {
		if !said[key] {
			t.Errorf("fields.yaml has words for what no field says: %q", key)
		}
	}
}

func TestTypesInChinese(t *testing.T) {
	for described, want := range map[string]string{
		"whole number":                   "整数",
		"true or false":                  "true 或 false",
		"high, medium or low":            "high、medium 或 low",
		"GPU type, or a list of them":    "GPU 型号，或其列表",
		"word, or a list of them":        "词，或其列表",
		"a, b or c, or a list of them":   "a、b 或 c，或其列表",
		"GPU type or nothing":            "GPU 型号或空",
		"section of namespaces, or list": "命名空间的小节，或列表",
		"what no field takes":            "what no field takes",
	} {
		field := workload.Field{Type: described}
		if got, english := field.TypeIn(phrase.Chinese), field.TypeIn(phrase.English); got != want || english != described {
			t.Errorf("%s: got %s and %s, want %s", described, got, english, want)
		}
	}
}

func TestExplainInChinese(t *testing.T) {
	streams, out, _ := TestIOStreams("")
	args := []string{"gpuctl", "--lang", "zh", "explain", "training.resources.gpu"}
	if code := Run(t.Context(), NewFactory(streams), args); code != exitOK {
		t.Fatalf("it ends with %d", code)
	}
	want := "类型：    training\n字段：    resources.gpu\n取值：    整数\n默认值：  0\n示例：    4\n\n每个 Pod 的 GPU 数；全部在同一个节点上。\n"
	if got := out.String(); !strings.HasPrefix(got, want) {
		t.Errorf("it says\n%swant\n%s", got, want)
	}
	for line := range strings.Lines(out.String()) {
		if monospace.Columns(strings.TrimSuffix(line, "\n")) > textWidth {
			t.Errorf("%d columns: %s", monospace.Columns(line), line)
		}
	}
}

// TestASkeletonInChinese is the same document, but for its comments.
func TestASkeletonInChinese(t *testing.T) {
	for _, kind := range workload.Kinds {
		bare := map[phrase.Language]string{}
		for _, language := range []phrase.Language{phrase.English, phrase.Chinese} {
			text, err := workload.Skeleton(kind, language)
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(text) {
				if !strings.HasPrefix(strings.TrimSpace(line), "# ") || strings.Contains(line, "# #") {
					bare[language] += line
				}
			}
			if language == phrase.Chinese && !strings.HasPrefix(text, "# 类型为 "+string(kind)+" 的文档。") {
				t.Errorf("%s begins with %q", kind, text[:min(len(text), 80)])
			}
		}
		if bare[phrase.English] != bare[phrase.Chinese] {
			t.Errorf("%s is another document in Chinese:\n%s", kind, bare[phrase.Chinese])
		}
	}
}
