package screen

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"g8s.host/gpu-scheduler/cli/monospace"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/test/golden"
)

var head = Head{
	Context: "prod", Namespace: "team-a", GPUs: []string{"default 0/96", "training-pool 124/128"},
	Read: time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC),
}

// jobs is a screen with two jobs, of which the second says why it waits.
func jobs(width, height int) State {
	return New(false).WithSize(width, height).WithHead(head).WithTable(Table{
		Header: "NAME  KIND      STATUS\n",
		Rows: []Row{
			{Kind: "training", Namespace: "team-a", Name: "sft", Text: "sft   training  \x1b[32mRunning\x1b[0m\n"},
			{Kind: "training", Namespace: "team-a", Name: "big", Text: "big   training  \x1b[33mPending\x1b[0m\n    too few GPUs\n"},
		},
	})
}

// many is a screen with so many nodes.
func many(count, height int) State {
	rows := make([]Row, count)
	for i := range rows {
		rows[i] = Row{Name: fmt.Sprintf("n%d", i), Text: fmt.Sprintf("n%d\n", i)}
	}
	s, _ := New(false).WithSize(80, height).HandleKey("3")
	return s.WithHead(head).WithTable(Table{Header: "NAME\n", Rows: rows})
}

func press(s State, keys ...string) (State, Action) {
	var action Action
	for _, key := range keys {
		s, action = s.HandleKey(key)
	}
	return s, action
}

// drawn is a screen as text: what is selected stands between brackets at the margin.
func drawn(t *testing.T, s State) string {
	t.Helper()
	var out strings.Builder
	lines := s.Lines()
	if len(lines) != s.height {
		t.Errorf("the screen has %d lines, want %d", len(lines), s.height)
	}
	for _, line := range lines {
		mark := "|"
		for _, span := range line {
			if span.Style.Reverse {
				mark = ">"
			}
		}
		if monospace.Columns(line.String()) > s.width {
			t.Errorf("%q is wider than %d", line, s.width)
		}
		out.WriteString(mark + strings.TrimRight(line.String(), " ") + "\n")
	}
	return out.String()
}

func TestScreens(t *testing.T) {
	page := Page{Title: "why big", Lines: []string{"Job big is Pending: no node has room for it, and none of those of other pools has.", "", "What to do:"}}
	tests := map[string]func() State{
		"jobs":         func() State { s, _ := jobs(100, 30).HandleKey(KeyDown); return s },
		"jobs-narrow":  func() State { return jobs(40, 10) },
		"none":         func() State { return jobs(60, 12).WithTable(Table{Note: "No jobs found."}) },
		"filter":       func() State { s, _ := press(jobs(100, 14), "/", "B", "I"); return s },
		"nothing":      func() State { s, _ := press(jobs(100, 14), "/", "x", KeyEnter); return s },
		"prompt":       func() State { s, _ := press(jobs(100, 14), ":", "n"); return s },
		"no-view":      func() State { s, _ := press(jobs(100, 14), ":", "x", KeyEnter); return s },
		"page":         func() State { return jobs(60, 14).WithPage(page) },
		"page-reading": func() State { return jobs(60, 14).WithPage(Page{Title: "why big"}) },
		"page-nothing": func() State { s, _ := press(jobs(60, 14).WithPage(page), "/", "x"); return s },
		"nodes":        func() State { s, _ := many(100, 16).HandleKey(KeyPageDown); return s },
		"trouble": func() State {
			bad := head
			bad.Trouble = "dial tcp 10.0.0.1:6443: connect: connection refused"
			return jobs(100, 14).WithHead(bad)
		},
		"chinese": func() State {
			s, _ := press(jobs(100, 14).WithLanguage(phrase.Chinese), "/", "B", "I", KeyEnter)
			return s
		},
		"chinese-narrow":  func() State { return jobs(42, 14).WithLanguage(phrase.Chinese) },
		"chinese-nothing": func() State { s, _ := press(jobs(60, 14).WithLanguage(phrase.Chinese), "/", "x", KeyEnter); return s },
		"chinese-page": func() State {
			return jobs(60, 14).WithPage(Page{Title: "日志 big", Live: true}).WithLanguage(phrase.Chinese)
		},
		"chinese-trouble": func() State {
			bad := head
			bad.Trouble = "集群没有响应；正在重试"
			return New(true).WithSize(60, 14).WithLanguage(phrase.Chinese).WithHead(bad)
		},
		"reading": func() State { return New(true).WithSize(100, 14).WithHead(Head{Context: "prod", Namespace: "team-a"}) },
	}
	for name, make := range tests {
		t.Run(name, func(t *testing.T) {
			golden.Compare(t, filepath.Join("testdata", name+".golden"), drawn(t, make()))
		})
	}
}

func TestKeys(t *testing.T) {
	big := jobs(100, 30).shown[1]
	tests := map[string]struct {
		keys []string
		want Action
	}{
		"why":                                {[]string{"j", KeyEnter}, Action{Why, big}},
		"describe":                           {[]string{"G", "d"}, Action{Describe, big}},
		"logs":                               {[]string{KeyEnd, "l"}, Action{Logs, big}},
		"yaml of what the filter leaves":     {[]string{"/", "b", "i", KeyEnter, "y"}, Action{YAML, big}},
		"keys are text in a prompt":          {[]string{"/", "q"}, Action{}},
		"a view by its name":                 {[]string{":", "N", "o", "d", "e", "s", KeyEnter}, Action{Do: Show}},
		"a view by Tab":                      {[]string{":", "p", KeyTab, KeyEnter}, Action{Do: Show}},
		"a view that is not there":           {[]string{":", "x", KeyEnter}, Action{}},
		"quit by the prompt":                 {[]string{":", "q", KeyEnter}, Action{Do: Quit}},
		"Ctrl-C ends also a prompt":          {[]string{"/", KeyInterrupt}, Action{Do: Quit}},
		"nothing is selected":                {[]string{"/", "x", KeyEnter, "l"}, Action{}},
		"all namespaces":                     {[]string{"0"}, Action{Do: Show}},
		"a node has no logs":                 {[]string{"3", "l"}, Action{}},
		"help":                               {[]string{"?"}, Action{Do: Help}},
		"a key that does nothing":            {[]string{"ctrl-x"}, Action{}},
		"no key":                             {[]string{""}, Action{}},
		"a prompt is given up by backspaces": {[]string{":", "x", KeyBackspace, KeyBackspace, "q"}, Action{Do: Quit}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if _, got := press(jobs(100, 30), tc.keys...); !cmp.Equal(tc.want, got) {
				t.Errorf("the action differs (-want +got):\n%s", cmp.Diff(tc.want, got))
			}
		})
	}
}

func TestSelectionStaysWithItsRow(t *testing.T) {
	s, _ := many(100, 16).HandleKey(KeyEnd)
	if row, _ := s.SelectedRow(); row.Name != "n99" {
		t.Fatalf("%s is selected, want the last", row.Name)
	}
	rows := append([]Row{{Name: "new", Text: "new\n"}}, s.table.Rows...)
	s = s.WithTable(Table{Header: "NAME\n", Rows: rows})
	if row, _ := s.SelectedRow(); row.Name != "n99" {
		t.Errorf("%s is selected after a row has come, want n99", row.Name)
	}
	s = s.WithTable(Table{Header: "NAME\n", Rows: rows[:10]})
	if row, _ := s.SelectedRow(); row.Name != "n8" {
		t.Errorf("%s is selected after the others have gone, want the last of those left", row.Name)
	}
	if _, ok := s.WithTable(Table{}).SelectedRow(); ok {
		t.Error("something is selected where nothing is")
	}
}

// TestAFilterLeavesTheMarkWhereItIs: what is marked is a row, not a place.
func TestAFilterLeavesTheMarkWhereItIs(t *testing.T) {
	tests := map[string]struct {
		keys []string
		want string
	}{
		"a filter that leaves it":                  {[]string{KeyEnd, "/", "n", "9", "9"}, "n99"},
		"and is cleared":                           {[]string{KeyEnd, "/", "n", "9", "9", KeyEnter, KeyEscape}, "n99"},
		"one that finds another":                   {[]string{"/", "n", "9", "9", KeyEnter}, "n99"},
		"and is cleared then":                      {[]string{"/", "n", "9", "9", KeyEnter, KeyEscape}, "n99"},
		"and is given up":                          {[]string{"j", "/", "n", "9", "9", KeyEscape}, "n1"},
		"and is corrected":                         {[]string{"j", "/", "n", "9", KeyBackspace, KeyBackspace, KeyEnter}, "n1"},
		"the next one where it is hidden":          {[]string{"j", "j", "j", "/", "5", KeyEnter}, "n5"},
		"the last one where there is no next":      {[]string{KeyEnd, "/", "5", KeyEnter}, "n95"},
		"a filter that leaves nothing, cleared":    {[]string{"j", "/", "x", KeyEnter, KeyEscape}, "n1"},
		"one marked among those that a filter has": {[]string{"/", "5", KeyEnter, "j", "j", KeyEscape}, "n25"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s, _ := many(100, 16).HandleKey("")
			s, _ = press(s, tc.keys...)
			s = s.WithTable(s.table)
			if row, _ := s.SelectedRow(); row.Name != tc.want {
				t.Errorf("%q is marked, want %q", row.Name, tc.want)
			}
		})
	}
}

// TestAFilterOfAPageKeepsItsPlace, as far as it leaves it.
func TestAFilterOfAPageKeepsItsPlace(t *testing.T) {
	lines := make([]string, 100)
	for i := range lines {
		lines[i] = fmt.Sprintf("line %d", i)
	}
	s, _ := press(jobs(40, 10).WithPage(Page{Title: "why", Lines: lines}), "/", "4", KeyEnter, "j", "j", KeyEscape)
	if first := s.page.lineAt(s.page.top); first != "line 24" {
		t.Errorf("%q is the first in sight, want the one that was", first)
	}
	s, _ = press(s, "/", "3")
	if first := s.page.lineAt(s.page.top); first != "line 30" {
		t.Errorf("%q is the first in sight, want the next that is left", first)
	}
}

// TestAFilterIsLookedForOnce, and not with every key and every drawing.
func TestAFilterIsLookedForOnce(t *testing.T) {
	s, _ := press(jobs(40, 10).WithPage(Page{Title: "logs", Lines: []string{"\x1b[32mb\x1b[0mig", "small", "bigger"}}), "/", "B", "I", "G", KeyEnter)
	found := s.page.found
	if diff := cmp.Diff([]int{0, 2}, found); diff != "" {
		t.Fatalf("found (-want +got):\n%s", diff)
	}
	s, _ = press(s, "j", "k")
	drawn(t, s.WithSize(30, 9))
	if &s.page.found[0] != &found[0] {
		t.Error("it was looked for again")
	}
	s = s.WithLines([]string{"big"})
	if diff := cmp.Diff([]int{0}, s.page.found); diff != "" {
		t.Errorf("found in other lines (-want +got):\n%s", diff)
	}
}

func TestPlainTextIsNotCopied(t *testing.T) {
	long := strings.Repeat("任务 x[1m ", 1000)
	if count := testing.AllocsPerRun(10, func() { _ = stripStyles(long) }); count != 0 {
		t.Errorf("a line without colours is copied in %v pieces", count)
	}
	if got := stripStyles("\x1b[1;32m" + long + "\x1b[0m\x1b[3"); got != long+"\x1b[3" {
		t.Errorf("without its colours it is %q", got)
	}
}

func TestALivePageKeepsItsEndInSight(t *testing.T) {
	lines := func(count int) []string {
		out := make([]string, count)
		for i := range out {
			out[i] = fmt.Sprintf("line %d", i)
		}
		return out
	}
	s := jobs(40, 10).WithPage(Page{Title: "logs sft", Live: true}).WithLines(lines(100))
	sees := func(want string) {
		t.Helper()
		if !strings.Contains(drawn(t, s), want) {
			t.Errorf("%q is not in sight:\n%s", want, drawn(t, s))
		}
	}
	sees("line 99\n")
	s, _ = press(s, "k", "k")
	s = s.WithLines(lines(200))
	sees("line 97\n")
	s, _ = press(s, "G")
	sees("line 199\n")
	s = s.WithLines(lines(300))
	sees("line 299\n")
	s, _ = press(s, "/", "7", "7", KeyEnter)
	sees("line 277\n")
	s, action := press(s, KeyEscape)
	if action.Do != Nothing || s.page.filter != "" {
		t.Errorf("the first Esc does %q and leaves the filter %q", action.Do, s.page.filter)
	}
	if _, action = press(s, KeyEscape); action.Do != Close {
		t.Errorf("the second Esc does %q", action.Do)
	}
}

func TestFilterOfOneViewIsNotThatOfAnother(t *testing.T) {
	s, _ := press(jobs(100, 30), "/", "b", KeyEscape)
	if len(s.shown) != 2 {
		t.Errorf("a filter that was given up leaves %d rows", len(s.shown))
	}
	s, _ = press(jobs(100, 30), "/", "b", KeyEnter, "2")
	if s.filter != "" || s.view != Queue || s.all {
		t.Errorf("the view %s has the filter %q", s.view, s.filter)
	}
}

// TestNoSizeIsTooSmall draws every screen at small sizes, and presses every key there.
func TestNoSizeIsTooSmall(t *testing.T) {
	keys := []string{
		"j", "k", "g", "G", KeyPageUp, KeyPageDown, "/", "任", KeyTab, KeyBackspace, KeyErase, KeyEnter, ":", "n", KeyTab, KeyEnter, "?", "r", "0", KeyEscape,
	}
	for _, width := range []int{0, 1, 2, 3, 7, 20, 40, 44} {
		for _, height := range []int{0, 1, 2, 3, 4, 7, 8, 10} {
			wide := strings.Repeat("任务 ", 40)
			for _, s := range []State{
				New(false).WithSize(width, height), jobs(width, height), many(30, height).WithSize(width, height),
				jobs(width, height).WithPage(Page{Title: wide, Lines: []string{wide, "", wide}}),
				jobs(width, height).WithPage(Page{Title: "logs", Live: true, Lines: []string{wide, wide}}).WithHead(Head{Trouble: wide, Context: wide, GPUs: []string{wide, wide}}),
			} {
				for _, key := range keys {
					s, _ = s.HandleKey(key)
					drawn(t, s)
				}
			}
		}
	}
}

func TestRead(t *testing.T) {
	green, bright := Style{Color: 32}, Style{Color: 97, Bold: true}
	tests := map[string]struct {
		text string
		want Line
	}{
		"colours":                         {"a\x1b[32mb\x1b[0mc", Line{{"a", Style{}}, {"b", green}, {"c", Style{}}}},
		"several at once":                 {"\x1b[1;97mb\x1b[mc", Line{{"b", bright}, {"c", Style{}}}},
		"a colour that is no more":        {"\x1b[32;39mb", Line{{"b", Style{}}}},
		"large palettes are left out":     {"\x1b[38;5;31mb\x1b[48;2;1;2;3mc", Line{{"b", Style{}}, {"c", Style{}}}},
		"a number that is none":           {"\x1b[99999999999999999999mb", Line{{"b", Style{}}}},
		"what a terminal obeys":           {"\x1b]0;owned\x07\x1b[2J\u009b\u202e\r\tb", Line{{"?]0;owned??[2J??? b", Style{}}}},
		"a sequence that is not finished": {"b\x1b[3", Line{{"b?[3", Style{}}}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, ParseLine(tc.text)); diff != "" {
				t.Errorf("the line differs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLinesFoldBetweenWords(t *testing.T) {
	tests := map[string]struct {
		text string
		want []string
	}{
		"words":                     {"the quick brown fox", []string{"the quick ", "brown fox"}},
		"a word longer than a line": {"0123456789abcdef", []string{"0123456789", "abcdef"}},
		"a long word after another": {"a 123456789abcdef", []string{"a 12345678", "9abcdef"}},
		"wide characters":           {"任务任务任务", []string{"任务任务任", "务"}},
		"nothing":                   {"", []string{""}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, line := range ParseLine(tc.text).wrapTo(10) {
				got = append(got, line.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("the lines differ (-want +got):\n%s", diff)
			}
		})
	}
}
