package cli

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"g8s.host/gpu-scheduler/cli/monospace"
	"g8s.host/gpu-scheduler/pkg/diagnosis"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/submit"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// chineseJobs are jobs with all that a row can have.
func chineseJobs(now time.Time) []inventory.Job {
	return []inventory.Job{
		{Name: "sft", Namespace: "team", Kind: "training", Status: inventory.StatusRunning, Ready: 2, Desired: 2, GPUs: 16, GPUTypes: []string{"A100-80G", "H100-80G"},
			Pool: "training-pool", Created: now.Add(-time.Hour), Nodes: []string{"train-01", "train-02"}},
		{Name: "chat", Namespace: "team", Kind: "inference", Status: inventory.StatusSuspended, Desired: 1, GPUs: 1, Pool: "任务池", Created: now.Add(-time.Minute),
			Trouble: inventory.Trouble{Reason: "Suspended", Message: "the job is paused and holds no GPUs"}},
	}
}

// TestTheListOfJobsInChinese: headers and words of ours are in Chinese, statuses and names as everywhere; every column begins at one
// place, and no line is wider than the terminal.
func TestTheListOfJobsInChinese(t *testing.T) {
	now := time.Date(2026, time.May, 4, 12, 0, 0, 0, time.UTC)
	jobs := append(chineseJobs(now), inventory.Job{Name: "lost", Kind: "training", Status: inventory.StatusPending, Desired: 1, Pool: "nowhere", Created: now,
		Trouble: inventory.Trouble{Reason: "NoSuchPool", Message: `no node is in GPU pool "nowhere" (pools: a, b)`}})
	want := `名称  类型       状态       就绪  GPU  GPU 型号     资源池         时长  节点 / 原因
sft   training   Running    2/2   16   A100-80G +1  training-pool  60m   train-01 +1
chat  inference  Suspended  0/1   1    任意         任务池         60s   Suspended
    任务已暂停，不占用 GPU
lost  training   Pending    0/1   0    -            nowhere        0s    NoSuchPool
    资源池 nowhere 中没有节点（pools: a, b）
`
	var out strings.Builder
	style := tableStyle{width: 100, language: phrase.Chinese}
	if err := writeTable(&out, jobs, jobColumns(now, false), style); err != nil {
		t.Fatal(err)
	}
	if out.String() != want {
		t.Errorf("it is\n%swant\n%s", out.String(), want)
	}
	starts := func(line string, cells []string) (at []int) {
		for _, cell := range cells {
			before, _, _ := strings.Cut(line, cell)
			at = append(at, monospace.Columns(before))
		}
		return at
	}
	lines := strings.Split(out.String(), "\n")
	head := starts(lines[0], []string{"类型", "状态", "就绪", "GPU 型号", "资源池", "时长"})
	row := starts(lines[2], []string{"inference", "Suspended", "0/1", "任意", "任务池", "60s"})
	if !slices.Equal(head, row) {
		t.Errorf("columns begin at %v in the header, and at %v in a row", head, row)
	}
	for _, line := range lines {
		if monospace.Columns(line) > 100 {
			t.Errorf("%d columns: %s", monospace.Columns(line), line)
		}
	}
}

// TestWhatProgramsReadIsNotTranslated, whichever way they read it.
func TestWhatProgramsReadIsNotTranslated(t *testing.T) {
	now := time.Date(2026, time.May, 4, 12, 0, 0, 0, time.UTC)
	for _, format := range []string{outputJSON, outputYAML, outputName, outputCSV, outputCustomColumns + "=NAME:.name,STATUS:.status"} {
		said := map[phrase.Language]string{}
		for _, language := range []phrase.Language{phrase.English, phrase.Chinese} {
			streams, out, _ := TestIOStreams("")
			streams.Language = language
			list := listing[inventory.Job]{
				io: streams, now: func() time.Time { return now }, noun: "job",
				columns: func(now time.Time) []column[inventory.Job] { return jobColumns(now, true) },
				name:    func(j inventory.Job) string { return j.Name }, print: func(j inventory.Job) string { return j.Kind + "/" + j.Name },
				output: newOutput(outputTable, outputJSON, outputYAML, outputName, outputCSV, outputCustomColumns+"="),
			}
			if err := list.output.Set(format); err != nil {
				t.Fatal(err)
			}
			if err := list.printNamed(chineseJobs(now)); err != nil {
				t.Fatal(err)
			}
			said[language] = out.String()
		}
		if said[phrase.English] != said[phrase.Chinese] || said[phrase.English] == "" {
			t.Errorf("-o %s is\n%sand in Chinese\n%s", format, said[phrase.English], said[phrase.Chinese])
		}
	}
}

// TestResultsInChinese: what was done is told in Chinese to people, and as ever to programs.
func TestResultsInChinese(t *testing.T) {
	gpus := submit.Result{Ref: submit.Ref{Kind: "training", Name: "sft"}, Action: submit.ActionPaused, GPUs: 8}
	tests := map[string]struct {
		of     change
		dryRun string
		want   string
	}{
		"an action":              {change{Kind: "training", Name: "sft", Action: submit.ActionUnchanged}, dryRunNone, "training/sft 没有变化\n"},
		"GPUs that are released": {change{Kind: "training", Name: "sft", text: phrase.Textf("paused").Add(releasedText(gpus))}, dryRunNone, "training/sft 已暂停：Pod 结束后释放 8 张 GPU\n"},
		"one that is asked for":  {change{Kind: "training", Name: "sft", text: phrase.Textf("resumed").Add(waitingText(submit.Result{GPUs: 1}))}, dryRunNone, "training/sft 已恢复：正在等待 1 张 GPU\n"},
		"what would be done":     {change{Kind: "node", Name: "a", Action: submit.ActionDeleted}, dryRunServer, "node/a 已删除（server dry run，未改动）\n"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			streams, out, _ := TestIOStreams("")
			streams.Language = phrase.Chinese
			c := changes{io: streams, output: newChangeOutput(), dryRun: tc.dryRun}
			if c.recordChange(tc.of); out.String() != tc.want {
				t.Errorf("it says %q, want %q", out, tc.want)
			}
		})
	}
}

// TestNounsInChinese: what is counted is counted in every language, and what has no words keeps its own.
func TestNounsInChinese(t *testing.T) {
	for want, text := range map[string]phrase.Text{
		"1 个任务": countText(1, "job"), "2 个任务": countText(2, "job"), "1 张 GPU": countText(1, "GPU"), "3 个文件": countText(3, "file"), "2 个副本": countText(2, "replica"),
		"没有SpotPools。": phrase.Textf("No %s found.", lookupNoun("SpotPool").many),
	} {
		if got := text.Localize(phrase.Chinese); got != want {
			t.Errorf("it says %q, want %q", got, want)
		}
	}
	if got := fmt.Sprint(countText(1, "event"), countText(0, "GPUQuota")); got != "1 event 0 GPUQuotas" {
		t.Errorf("in English it is %q", got)
	}
}

// TestEveryLongerHelpFitsInChinese its hundred columns.
func TestEveryLongerHelpFitsInChinese(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	for _, path := range CommandPaths() {
		streams, out, _ := TestIOStreams("")
		args := slices.Concat([]string{"gpuctl", "--lang", "zh"}, strings.Fields(path), []string{"--help"})
		if code := Run(t.Context(), NewFactory(streams), args); code != exitOK {
			t.Errorf("%v ends with %d", args, code)
		}
		for line := range strings.Lines(out.String()) {
			if monospace.Columns(strings.TrimRight(line, "\n")) > helpWidth && !strings.Contains(line, "$schema=") && !strings.HasPrefix(line, "  gpuctl ") {
				t.Errorf("%s: %d columns: %s", path, monospace.Columns(line), line)
			}
		}
	}
}

func TestWhereVariablesComeFromInChinese(t *testing.T) {
	env := []string{"A=1 from 2", "TOKEN from secret hf, key token", "B from config map c, key k", "IP from status.podIP", "C from elsewhere"}
	want := []string{"A=1 from 2", "TOKEN 来自 Secret hf，键 token", "B 来自 ConfigMap c，键 k", "IP 来自 status.podIP", "C 来自 别处"}
	if diff := cmp.Diff(want, localizeVariables(env, phrase.Chinese)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(env, localizeVariables(env, phrase.English)); diff != "" {
		t.Errorf("in English (-want +got):\n%s", diff)
	}
}

func TestWhyNoNodeCouldHoldAJobInChinese(t *testing.T) {
	asked := &workload.Resources{Pool: "train", GPU: 16, GPUTypes: []string{"A100-80G"}}
	offers := []inventory.Offer{{Pool: "train", GPUType: "A100-80G", MaxGPUs: 8}}
	want := "training/big 会等待不存在的节点：一个 Pod 申请16 张 GPU，而资源池 train 中这样的节点最多有 8 张"
	if got := willWaitText("training/big", diagnosis.ExplainMisfit(asked, offers)).Localize(phrase.Chinese); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
