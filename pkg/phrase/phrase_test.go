package phrase

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
)

func TestFromEnvironment(t *testing.T) {
	tests := map[string]struct {
		environment string
		want        Language
	}{
		"nothing":                                {"", English},
		"no locale":                              {"LANG=C", English},
		"POSIX":                                  {"LANG=POSIX", English},
		"C in UTF-8":                             {"LANG=C.UTF-8", English},
		"English":                                {"LANG=en_US.UTF-8", English},
		"Chinese":                                {"LANG=zh_CN.UTF-8", Chinese},
		"another spelling":                       {"LANG=zh-Hans.utf8", Chinese},
		"the language alone":                     {"LANG=zh", Chinese},
		"Taiwan":                                 {"LANG=zh_TW.UTF-8", Chinese},
		"a variant":                              {"LANG=zh_CN.UTF-8@pinyin", Chinese},
		"an encoding that cannot be shown":       {"LANG=zh_CN.GBK", English},
		"a language that begins like it":         {"LANG=zha_CN.UTF-8", English},
		"garbage":                                {"LANG=\x00zh=@.._--", English},
		"LC_MESSAGES before LANG":                {"LANG=en_US.UTF-8 LC_MESSAGES=zh_CN.UTF-8", Chinese},
		"LC_ALL before both":                     {"LANG=zh_CN.UTF-8 LC_MESSAGES=zh_CN.UTF-8 LC_ALL=C", English},
		"an empty LC_ALL says nothing":           {"LANG=zh_CN.UTF-8 LC_ALL=", Chinese},
		"what is about numbers says nothing":     {"LC_NUMERIC=zh_CN.UTF-8", English},
		"LANGUAGE is of programs that have more": {"LANGUAGE=zh", English},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			getenv := func(name string) string {
				for _, setting := range strings.Fields(tc.environment) {
					if value, ok := strings.CutPrefix(setting, name+"="); ok {
						return value
					}
				}
				return ""
			}
			if got := FromEnvironment(getenv); got != tc.want {
				t.Errorf("the language is %q, want %q", got, tc.want)
			}
		})
	}
}

func TestText(t *testing.T) {
	amount := resource.MustParse("4Gi")
	text := Textf("node %s has room by now, which it had not when the scheduler tried", "node-1")
	holder := Textf("job %s of namespace %s", "a", "team").Addf(" (%s)", Textf("ending"))
	tests := map[string]struct {
		text             Text
		english, chinese string
	}{
		"nothing":              {nil, "", ""},
		"a sentence":           {text, "node node-1 has room by now, which it had not when the scheduler tried", "节点 node-1 现在有空位，调度器上次尝试时还没有"},
		"one in another":       {Textf("%s holds %d", holder, 2), "job a of namespace team (ending) holds 2", "命名空间 team 的任务 a （正在结束）占用 2"},
		"what others say":      {Quote("100% of %d"), "100% of %d", "100% of %d"},
		"what nobody has said": {Textf("xyzzy %s", &amount), "xyzzy 4Gi", "xyzzy 4Gi"},
		"an error":             {Textf("xyzzy %s", errors.New("why")), "xyzzy why", "xyzzy why"},
		"a percentage":         {Textf("100%% of it"), "100% of it", "100% of it"},
		"one of a value":       {Textf("100%% of %s", "it"), "100% of it", "100% of it"},
		"a list":               {Join([]Text{Quote("a"), Quote("b")}, Textf(", ")), "a, b", "a、b"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := tc.text.String(); got != tc.english {
				t.Errorf("in English it is %q, want %q", got, tc.english)
			}
			if got := tc.text.Localize("klingon"); got != tc.english {
				t.Errorf("in a language that nobody speaks it is %q, want %q", got, tc.english)
			}
			if got := tc.text.Localize(Chinese); got != tc.chinese {
				t.Errorf("in Chinese it is %q, want %q", got, tc.chinese)
			}
		})
	}
}

// TestReplacing: what is replaced is what others have written, never our own words.
func TestReplacing(t *testing.T) {
	said := Textf("node %s has room by now, which it had not when the scheduler tried", "a")
	text := Textf("%s holds %d", said, 2).Add(Quote("node a: a node"))
	got := text.ReplaceQuoted("node", "machine")
	if want := "节点 a 现在有空位，调度器上次尝试时还没有占用 2machine a: a machine"; got.Localize(Chinese) != want {
		t.Errorf("it is %q, want %q", got.Localize(Chinese), want)
	}
	if want := "节点 a 现在有空位，调度器上次尝试时还没有占用 2node a: a node"; text.Localize(Chinese) != want {
		t.Errorf("the text itself became %q", text.Localize(Chinese))
	}
}

// TestValuesAreReadWhenTheyAreSaid: an amount that is reckoned on with afterwards does not change what was said.
func TestValuesAreReadWhenTheyAreSaid(t *testing.T) {
	amount := resource.MustParse("4")
	text := Textf("%s cards", &amount)
	amount.Add(amount)
	if got := text.String(); got != "4 cards" {
		t.Errorf("it says %q", got)
	}
}

// TestGoingOnLeavesTheTextAsItIs: two sentences may begin alike.
func TestGoingOnLeavesTheTextAsItIs(t *testing.T) {
	begin := Textf("a").Addf("b")
	one, other := begin.Addf("1"), begin.Addf("2")
	if begin.String() != "ab" || one.String() != "ab1" || other.String() != "ab2" {
		t.Errorf("they are %q, %q and %q", begin, one, other)
	}
}

func TestParts(t *testing.T) {
	got, err := json.Marshal(Textf("%s holds %d", Textf("job %s of namespace %s", "a", "team"), 2).Addf("; %s there", "x").TemplateParts())
	if err != nil {
		t.Fatal(err)
	}
	want := `[{"template":"%s holds %d","params":["job a of namespace team","2"]},{"template":"; %s there","params":["x"]}]`
	if string(got) != want {
		t.Errorf("for programs it is %s, want %s", got, want)
	}
}

// TestATextForPrograms is in English whoever reads it, left out where it says nothing, and read again as it was written.
func TestATextForPrograms(t *testing.T) {
	type check struct {
		Text   Text `json:"text"`
		Advice Text `json:"advice,omitempty"`
	}
	data, err := json.Marshal(check{Text: Textf("%d jobs", 2)})
	if err != nil || string(data) != `{"text":"2 jobs"}` {
		t.Errorf("for programs it is %s (%v)", data, err)
	}
	var read check
	if err := json.Unmarshal(data, &read); err != nil || !read.Text.Equal(Textf("%d jobs", 2)) || len(read.Advice) != 0 {
		t.Errorf("read again it is %q and %q (%v)", read.Text, read.Advice, err)
	}
	if err := json.Unmarshal([]byte(`{"text":7}`), &read); err == nil {
		t.Error("a number was read as a text")
	}
}
