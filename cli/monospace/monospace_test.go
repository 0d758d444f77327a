package monospace

import "testing"

func TestColumns(t *testing.T) {
	for text, want := range map[string]int{"": 0, "job": 3, "größer": 6, "任务 a": 6, "（卡）": 6, "e\u0301": 1, "…": 1, "ｆ": 2, "🚀": 2} {
		if got := Columns(text); got != want {
			t.Errorf("%q has %d columns, want %d", text, got, want)
		}
	}
}

func TestCut(t *testing.T) {
	tests := map[string]struct {
		text string
		most int
		want string
	}{
		"what fits":                       {"任务", 4, "任务"},
		"a character is not cut in two":   {"任务任务", 6, "任务…"},
		"nor does half of it stand there": {"任务任务", 7, "任务任…"},
		"letters":                         {"a longer name", 6, "a lon…"},
		"no width":                        {"任务", 0, "任务"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Truncate(tc.text, tc.most); got != tc.want || tc.most > 1 && Columns(got) > tc.most {
				t.Errorf("cut is %q, want %q", got, tc.want)
			}
		})
	}
}
