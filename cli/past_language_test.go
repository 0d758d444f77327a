package cli

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"g8s.host/gpu-scheduler/pkg/defrag"
	"g8s.host/gpu-scheduler/pkg/doctor"
	"g8s.host/gpu-scheduler/pkg/drain"
	"g8s.host/gpu-scheduler/pkg/eviction"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/nodestate"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/queue"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

func chinese() (IOStreams, *bytes.Buffer, *bytes.Buffer) {
	streams, out, errOut := TestIOStreams("")
	streams.Language = phrase.Chinese
	return streams, out, errOut
}

func TestAdviceInChinese(t *testing.T) {
	advice := defrag.Advice{
		Proposals: []defrag.Proposal{{
			Ref: defrag.Ref{Namespace: "team", Job: "big", Kind: "training", Pod: "big-0", GPUs: 8}, Node: "a",
			Moves: []defrag.Move{{Ref: defrag.Ref{Namespace: "team", Pod: "small-0", Kind: "training", GPUs: 1}, From: "a", To: "b"}},
		}},
		Unhelped: []defrag.Unhelped{{Ref: defrag.Ref{Namespace: "team", Pod: "own", GPUs: 1}, Why: phrase.Textf("too much of what is in the way cannot be moved")}},
	}
	streams, out, _ := chinese()
	if err := (&adviseDefragOptions{limits: defrag.DefaultLimits}).printAdvice(streams, advice); err != nil {
		t.Fatal(err)
	}
	want := `命名空间 team 的 training/big（Pod big-0） 在等待 8 张 GPU：移动 1 次可在节点 a 上腾出位置
移动          类型      GPU  从  到
team/small-0  training  1    a   b

命名空间 team 的 Pod own 在等待 1 张 GPU：移动也无济于事：挡路的有太多不能移动

移动会重启 Pod：没有保存的内容会丢失。用 --apply 逐个移动。
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("advice (-want +got):\n%s", diff)
	}
}

func TestADrainThatIsHeldInChinese(t *testing.T) {
	held := &drain.HeldError{Node: "n", Holds: []drain.Hold{{Pod: drain.Pod{Namespace: "team", Name: "own"}, Reason: eviction.NoController}}}
	stopped := &drain.StoppedError{Node: "n", Gone: 1, Left: []drain.Pod{{Namespace: "team", Name: "own"}}, Cause: held}
	for want, text := range map[string]phrase.Text{
		"节点 n 没有清空，未做任何操作：\n  team/own：没有什么会重新启动它":      phrase.FromError(stopped),
		"已离开的 Pod：1 个。仍在节点 n 上：team/own。\n节点保持 cordon。": stopped.ProgressText(),
	} {
		if got := text.Localize(phrase.Chinese); got != want {
			t.Errorf("it says %q, want %q", got, want)
		}
	}
}

func TestWhatControllersMakeOfANodeInChinese(t *testing.T) {
	now := time.Date(2026, time.May, 4, 12, 0, 0, 0, time.UTC)
	since, until := now.Add(-time.Hour), now.Add(time.Minute)
	tests := map[string]nodestate.State{
		"可疑：它的状况 XIDFatal 曾为 true，第 2 次故障，从 60m 前开始；如果保持正常，60s 后重新接收 Pod": {
			Code: nodestate.Suspect, Reason: "Condition", Condition: "XIDFatal", Failures: 2, Since: &since, Until: &until,
		},
		"未被资源池接纳：它提供 7 张 GPU，要求 8 张": {
			Code: nodestate.NotAdmitted, Violations: []nodestate.Violation{{Text: "it offers 7 GPUs, and must offer 8"}},
		},
	}
	for want, state := range tests {
		if got := stateSentence(state, true, now).Localize(phrase.Chinese); got != want {
			t.Errorf("it says %q, want %q", got, want)
		}
	}
}

// TestTheQueueInChinese: when a job starts and why it waits are told in Chinese, and as ever to programs.
func TestTheQueueInChinese(t *testing.T) {
	now := time.Date(2026, time.May, 4, 12, 0, 0, 0, time.UTC)
	early, late := now.Add(20*time.Minute), now.Add(3*time.Hour)
	entries := []queue.Entry{
		{Position: 1, Pool: "p", Name: "big", Never: true, Since: now, Trouble: inventory.Trouble{Reason: "TooManyGPUs", Message: "in English"}, MessageText: phrase.Textf("%d GPUs", 8)},
		{Position: 2, Pool: "p", Name: "sft", Earliest: &early, Latest: &late, Confidence: 0.9, Since: now},
	}
	var out bytes.Buffer
	if err := writeTable(&out, entries, queueColumns(now, false), tableStyle{language: phrase.Chinese}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{" 永不 ", "TooManyGPUs: 8 张 GPU", " 20m 至 3h 后（90%） "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it says\n%swithout %q", out.String(), want)
		}
	}
	out.Reset()
	if err := writeCSV(&out, entries, queueColumns(now, false), false); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{",never,", ",in 20m to 3h (90%),"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("programs get\n%swithout %q", out.String(), want)
		}
	}
}

// TestDoctorInChinese: checks are told in Chinese, their statuses as everywhere, and programs read what they always have.
func TestDoctorInChinese(t *testing.T) {
	var facts doctor.Facts
	facts.Namespace, facts.Server = "team", "v1.37.2"
	facts.MarkUnread(snapshot.PartNodes)
	checks := doctor.Examine(facts)
	streams, out, _ := chinese()
	if err := writeChecks(streams, checks, ""); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"ok       API server：有应答，版本 v1.37.2\n", "failed   调度器：此集群从未有过 gpu-scheduler 担任 leader，因此不会放置任务\n",
		"unknown  GPU 健康：你无权读取节点\n", "         -> 请管理员运行 gpuctl doctor\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it says\n%swithout %q", out.String(), want)
		}
	}
	english := regexp.MustCompile(`[a-z]+ [a-z]+ [a-z]+`)
	for line := range strings.Lines(out.String()) {
		if words := english.FindString(line); words != "" && !strings.Contains(line, "kubectl") {
			t.Errorf("it says %q in %s", words, line)
		}
	}
	said := map[phrase.Language]string{}
	for _, language := range []phrase.Language{phrase.English, phrase.Chinese} {
		streams, out, _ := TestIOStreams("")
		streams.Language = language
		if err := writeChecks(streams, checks, outputJSON); err != nil {
			t.Fatal(err)
		}
		said[language] = out.String()
	}
	if said[phrase.English] != said[phrase.Chinese] || !strings.Contains(said[phrase.English], `"text": "it answers, version v1.37.2"`) {
		t.Errorf("programs read\n%sand\n%s", said[phrase.English], said[phrase.Chinese])
	}
}
