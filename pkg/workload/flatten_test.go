package workload

import (
	"strings"
	"testing"

	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/safeyaml"
)

// TestWhatIsTooMuchIsSaidInEveryLanguage, in English in the words of the package that found it.
func TestWhatIsTooMuchIsSaidInEveryLanguage(t *testing.T) {
	tests := map[string]struct{ text, chinese string }{
		"values": {"a: [" + strings.Repeat("1,", UnfoldLimits.Values) + "1]\n", "展开别名后，文档的值超过 20000 个"},
		"bytes":  {"a: &x " + strings.Repeat("y", UnfoldLimits.Bytes/3) + "\nb: [*x, *x, *x]\n", "展开别名后，文档超过 122880 字节"},
		"depth":  {"a: " + strings.Repeat("[", 45) + strings.Repeat("]", 45) + "\n", "文档嵌套超过 40 层"},
		"alias":  {"a: &x 1\nb: *x\n", "此处不接受别名 *x：写出它所代表的内容"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			src := &source{noAliases: name == "alias"}
			root := parseYAML(src, splitLines(tc.text))
			if root == nil || unfoldAliases(src, root) || len(src.diagnostics) != 1 {
				t.Fatalf("it is taken, or told otherwise: %v", src.diagnostics)
			}
			limits := UnfoldLimits
			limits.NoAliases = src.noAliases
			again := parseYAML(&source{}, splitLines(tc.text))
			problem := safeyaml.Unfold(again, limits)
			says := src.diagnostics[0].Text
			if says.String() != problem.Message || says.Localize(phrase.Chinese) != tc.chinese {
				t.Errorf("it says %s and %s, want %s and %s", says, says.Localize(phrase.Chinese), problem.Message, tc.chinese)
			}
		})
	}
}
