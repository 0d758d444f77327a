package phrase

import "testing"

func TestWrittenMessagesAreFoundAgain(t *testing.T) {
	tests := map[string]struct{ message, want string }{
		"a whole sentence":       {"all nodes are as they must be", "所有节点都符合要求"},
		"with values":            {"it offers 7 GPUs, and must offer 8", "它提供 7 张 GPU，要求 8 张"},
		"with what is within it": {"8 GPUs of type A100-80G in pool train are guaranteed by 2 GPUQuotas, and it has 4: lower a min, or add nodes", "2 个 GPUQuota 为资源池 train 的 A100-80G 保障了 8 张 GPU，而它有 4 张：降低 min，或增加节点"},
		"several": {
			"container main ended with exit code 137 (OOMKilled); Job has reached the specified backoff limit",
			"容器 main 结束，退出码 137（OOMKilled）；Job has reached the specified backoff limit",
		},
		"the one that says more of two": {"/models from claim models, read only", "/models 来自卷声明 models，只读"},
		"a number as it was written":    {"the job was paused as its GPUs had been less than 2.5% busy for 1h", "任务已暂停，因为它的 GPU 利用率低于 2.5% 已持续 1h"},
		"a sentence that is said elsewhere, too": {
			"asks 4 GPUs, the namespace may have 2 (quota nlp): it never fits", "申请 4 张 GPU，命名空间上限为 2（配额 nlp）：永远放不下",
		},
		"a name that is a word of ours": {"it starts when jobs has succeeded", "jobs 成功后启动"},
		"of others":                     {"Back-off pulling image \"x\"; ErrImagePull", "Back-off pulling image \"x\"; ErrImagePull"},
		"a number that is none":         {"it offers 99999999999999999999999 GPUs, and must offer 8", "it offers 99999999999999999999999 GPUs, and must offer 8"},
		"nothing":                       {"", ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Chinese.TranslateMessage(tc.message); got != tc.want {
				t.Errorf("it says %q, want %q", got, tc.want)
			}
			if got := English.TranslateMessage(tc.message); got != tc.message {
				t.Errorf("in English it says %q, want it as it was", got)
			}
			if got := Textf("%s!", FromEnglish(tc.message)).Localize(Chinese); got != tc.want+"!" {
				t.Errorf("within a text it says %q, want %q", got, tc.want+"!")
			}
		})
	}
}

// TestWhatStandsWithinAMessageHasWords: a format that is not in the catalogue would be found and said in English.
func TestWhatStandsWithinAMessageHasWords(t *testing.T) {
	for _, format := range append(append([]string{}, fragmentFormats...), sharedFormats...) {
		if Chinese.Translate(format) == format {
			t.Errorf("the catalogue has no words for %q", format)
		}
	}
}
