package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"g8s.host/gpu-scheduler/pkg/diagnosis"
	"g8s.host/gpu-scheduler/pkg/explain"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/pkg/snapshot"
	"g8s.host/gpu-scheduler/pkg/whatif"
)

func TestLanguage(t *testing.T) {
	tests := map[string]struct {
		environment phrase.Language
		config      string
		args        []string
		want        phrase.Language
	}{
		"nothing says":                     {"", "", nil, ""},
		"the environment":                  {phrase.Chinese, "", nil, phrase.Chinese},
		"the settings before it":           {phrase.Chinese, "lang: en\n", nil, phrase.English},
		"the flag before both":             {phrase.English, "lang: en\n", []string{"--lang", "zh"}, phrase.Chinese},
		"a setting that nobody could make": {phrase.Chinese, "lang: klingon\n", nil, phrase.Chinese},
		"settings that cannot be read":     {phrase.Chinese, "\tlang", nil, phrase.Chinese},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			t.Setenv("XDG_CONFIG_HOME", dir)
			t.Setenv("HOME", dir)
			if tc.config != "" {
				path := filepath.Join(dir, "gpuctl", "config.yaml")
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(tc.config), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			streams, _, _ := TestIOStreams("")
			streams.Language = tc.environment
			f := NewFactory(streams)
			if err := newRootCmd(f, "gpuctl").ParseFlags(tc.args); err != nil {
				t.Fatal(err)
			}
			if got := f.outputLanguage(); got != tc.want {
				t.Errorf("the language is %q, want %q", got, tc.want)
			}
		})
	}
}

func TestALanguageThatNobodySpeaks(t *testing.T) {
	for _, args := range [][]string{{"gpuctl", "version", "--client", "--lang", "zn"}, {"gpuctl", "config", "set", "lang", "zn"}} {
		streams, _, stderr := TestIOStreams("")
		if code := Run(t.Context(), NewFactory(streams), args); code != exitUsage || !strings.Contains(stderr.String(), "zh") {
			t.Errorf("%v ends with %d, and says %q", args, code, stderr)
		}
	}
}

// busy is a report as the diagnosis makes it.
func busy() diagnosis.Report {
	finding := diagnosis.Finding{
		Cause: reason.Busy, Nodes: 7, Examples: []string{"node-1", "node-2"},
		Message: phrase.Textf("%d of %d GPUs are free on %s; a pod asks for %d", 2, 56, phrase.Textf("%d nodes", 7), 8),
		Steps: []diagnosis.Step{
			{Action: reason.Wait, Message: phrase.Textf("wait: node %s is %s short", "node-1", phrase.Textf("%d GPUs", 6))},
			{Action: reason.SetField, Field: reason.FieldGPU, Message: phrase.Textf("ask for at most %s per pod in %s, which node %s has now", phrase.Textf("%d GPUs", 2), reason.FieldGPU, "node-1")},
		},
	}
	return diagnosis.Report{Job: "big", Namespace: "team", Status: "Pending", Findings: []diagnosis.Finding{finding.WithText()}}
}

func TestWhyInChinese(t *testing.T) {
	var out bytes.Buffer
	d := newDescription(IOStreams{Out: &out})
	d.language = phrase.Chinese
	if err := explainReport(d, busy(), time.Time{}); err != nil {
		t.Fatal(err)
	}
	want := `任务 big 处于 Pending（Busy）：7 个节点上 56 张 GPU 中有 2 张空闲；一个 Pod 申请 8 张（node-1, node-2，另有 5 个）

该做什么：
  - 等待：节点 node-1 还差 6 张 GPU
  - 或：在 resources.gpu 中每个 Pod 最多申请 2 张 GPU，节点 node-1 现在就有
  （这是 YAML 的字段：gpuctl edit big -n team；或改文件后执行 gpuctl apply -f FILE --replace）
`
	if out.String() != want {
		t.Errorf("it says\n%swant\n%s", out.String(), want)
	}
}

// TestTablesInChinese: whatever why shows of a job has its heading and the heads of its columns in Chinese.
func TestTablesInChinese(t *testing.T) {
	var out bytes.Buffer
	d := newDescription(IOStreams{Out: &out})
	d.language = phrase.Chinese
	holders := []diagnosis.Holder{{Namespace: "n", Job: "a", GPUs: 1, Ending: true}, {Namespace: "n", Job: "b", GPUs: 1}, {Namespace: "n", Job: "c", GPUs: 1}, {Namespace: "n", Job: "d", GPUs: 1}}
	report := diagnosis.Report{
		Job: "big", Status: "Pending", Findings: []diagnosis.Finding{{Cause: reason.Busy}, {Cause: reason.Busy}},
		NearMisses: []diagnosis.NearMiss{{NearMiss: explain.NearMiss{Node: "node-1", Detail: "2"}, Holders: holders}},
		Placements: []diagnosis.Placement{{Pod: "big-0", Node: "node-1"}},
		Records:    []explain.Record{{Name: "big-0", Attempts: 1, Explained: 1, Last: explain.Attempt{Nodes: 2, Reasons: []explain.Reason{{Nodes: 2, Text: "x"}}}}},
		Verdict:    "0/2 nodes are available", Unread: []snapshot.Part{snapshot.PartNodes},
	}
	if err := explainReport(d, report, time.Time{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"\n另外：\n", "\n最接近的节点：\n  节点    GPU  占用者\n  node-1  2    n/a 1 (正在结束), n/b 1, n/c 1, 另有 1 个\n", "\n所在位置：\n  POD    节点    资源池  GPU 型号  GPU  连接方式\n",
		"\n  节点数  原因\n", "\n调度器的原话：\n", "\n不够准确，因为你无权读取：\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it says\n%swithout\n%s", out.String(), want)
		}
	}
}

// TestProgramsReadTheSameInEveryLanguage: what is put into words for people is not what programs get.
func TestProgramsReadTheSameInEveryLanguage(t *testing.T) {
	got, err := json.Marshal(busy().Findings[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"text":"2 of 56 GPUs are free on 7 nodes; a pod asks for 8"`,
		`"parts":[{"template":"%d of %d GPUs are free on %s; a pod asks for %d","params":["2","56","7 nodes","8"]}]`,
		`"advice":["wait: node node-1 is 6 GPUs short","or ask for at most 2 GPUs per pod in resources.gpu, which node node-1 has now"]`,
	} {
		if !strings.Contains(string(got), want) {
			t.Errorf("for programs it is\n%s\nwithout %s", got, want)
		}
	}
}

func TestSimulateInChinese(t *testing.T) {
	var out bytes.Buffer
	d := newDescription(IOStreams{Out: &out})
	d.language = phrase.Chinese
	report := busy()
	report.Kind = "training"
	starts := diagnosis.Report{Job: "small", Kind: "training", Records: []explain.Record{{
		Name: "small-0", Last: explain.Attempt{Feasible: 2, Candidates: []explain.Candidate{{Node: "node-1", Score: 7}}},
	}}}
	answer := &whatif.Answer{
		Jobs: []whatif.Job{{Starts: true, Report: starts}, {Report: report}}, Evicted: []string{"team/low-0"}, Policy: whatif.PolicyShipped,
		UncheckedTexts: []phrase.Text{phrase.Textf("whether the API server would take %s could not be asked: you may not create objects of kind %s in namespace %s",
			phrase.Textf("the pods of job %s", "big"), "Pod", "team")},
	}
	if err := writeAnswer(d, answer, time.Time{}); err != nil {
		t.Fatal(err)
	}
	want := `training/small 现在就会启动

Pod small-0 的得分（2 个节点中最好的几个）：
  节点    得分
  node-1  7

training/big 会等待（Busy）：7 个节点上 56 张 GPU 中有 2 张空闲；一个 Pod 申请 8 张（node-1, node-2，另有 5 个）

该做什么：
  - 等待：节点 node-1 还差 6 张 GPU
  - 或：在 resources.gpu 中每个 Pod 最多申请 2 张 GPU，节点 node-1 现在就有

为腾出位置会被驱逐：
  team/low-0

注意：无法询问 API server 是否接受 任务 big 的 Pod：你没有权限在命名空间 team 中创建 Pod

按自带的策略判断，因为你无权读取集群的策略，或集群没有策略：
`
	if out.String() != want {
		t.Errorf("it says\n%swant\n%s", out.String(), want)
	}
}
