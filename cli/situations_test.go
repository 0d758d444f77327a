package cli

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"g8s.host/gpu-scheduler/pkg/diagnosis"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/test/situations"
)

// TestOneCodeInEveryLanguage has the table of get jobs, which gpuctl ui shows as well, and the answer of gpuctl why name the same code in English and in
// Chinese as programs read.
func TestOneCodeInEveryLanguage(t *testing.T) {
	all := situations.AllSituations()
	for i := range all {
		t.Run(all[i].Name, func(t *testing.T) {
			w := all[i].World()
			job, report := w.Job(), diagnosis.Diagnose(w.Facts())
			for _, language := range []phrase.Language{phrase.English, phrase.Chinese} {
				row := tableRows([]inventory.Job{job}, jobColumns(situations.Noon, false), tableStyle{language: language})[1]
				if !strings.Contains(row, job.Reason) {
					t.Errorf("the row is %q, and the code is %s", row, job.Reason)
				}
				out := &bytes.Buffer{}
				d := newDescription(IOStreams{Out: out})
				d.language = language
				if err := explainReport(d, report, situations.Noon); err != nil {
					t.Fatal(err)
				}
				for _, finding := range report.Findings {
					if !strings.Contains(out.String(), string(finding.Cause)) {
						t.Errorf("why says %q, and a code is %s", out, finding.Cause)
					}
				}
			}
		})
	}
}

// englishSentence matches four words of English in a row.
var englishSentence = regexp.MustCompile(`[a-z]+(?:,? [a-z]+){3,}`)

// quotedInAnswers match what stays as others wrote it: commands, and the words of Kubernetes, of kubelet, of policies and of those who read a request.
var quotedInAnswers = regexp.MustCompile(`(?:gpuctl|kubectl) [^。；，（）\n]*|"[^"\n]*"|couldn't parse image name|image is not signed|reading annotation [^；\n]*|Job has reached the specified backoff limit`)

// TestNoEnglishIsLeftInAnswers walks the answers of gpuctl why in Chinese, of all situations.
func TestNoEnglishIsLeftInAnswers(t *testing.T) {
	all := situations.AllSituations()
	for i := range all {
		report := diagnosis.Diagnose(all[i].World().Facts())
		out := &bytes.Buffer{}
		d := newDescription(IOStreams{Out: out})
		d.language = phrase.Chinese
		if err := explainReport(d, report, situations.Noon); err != nil {
			t.Fatal(err)
		}
		ours, _, _ := strings.Cut(out.String(), phrase.Textf("In the scheduler's words").Localize(phrase.Chinese)) // which are quoted as they are
		for line := range strings.Lines(ours) {
			if left := englishSentence.FindString(quotedInAnswers.ReplaceAllString(line, "")); left != "" {
				t.Errorf("%s: %q is left of %s", all[i].Name, left, line)
			}
		}
	}
}

// TestNumbersOfNearestNodesInChinese has each sentence that numbers are put into.
func TestNumbersOfNearestNodesInChinese(t *testing.T) {
	for code := gpu.NoGPUs; code < gpu.Codes; code++ {
		for _, numbers := range []gpu.Reason{
			{Asked: 4, Usable: 3, Total: 8}, {Asked: 3, Usable: 3, Total: 8, Unknown: 2}, {Asked: 2, Usable: 1, Total: 8, MemoryMiB: 40960, LargestMiB: 24576},
			{Asked: 2, Usable: 1, Total: 8, Reserved: true, LargestMiB: 24576, ShareableMiB: 24000}, {Asked: 2, Usable: 1, Total: 8, Sharing: "mps"},
		} {
			if numbers.Code = code; code == gpu.OnlySlots {
				numbers.Sharing = "mps"
			}
			detail := numbers.Detail()
			if words := phrase.Chinese.TranslateMessage(detail); englishSentence.MatchString(words) || strings.Contains(words, "free") || strings.Contains(words, "short") {
				t.Errorf("%q is %q in Chinese", detail, words)
			}
		}
	}
	if words := phrase.Chinese.TranslateMessage(gpu.Reason{Code: gpu.TooFewFree, Asked: 3, Usable: 1, Total: 7, Profile: "1g.10gb"}.Detail()); words != "1g.10gb 的 MIG 切片 7 个中 1 个空闲，缺 2 个" {
		t.Errorf("slices: %s", words)
	}
}

// TestEachCommandOfTheAdviceIsOne parses each command line of gpuctl that the advice of a situation has.
func TestEachCommandOfTheAdviceIsOne(t *testing.T) {
	all, commands := situations.AllSituations(), 0
	for i := range all {
		for _, finding := range diagnosis.Diagnose(all[i].World().Facts()).Findings {
			for _, step := range finding.Steps {
				words := strings.Fields(step.Command)
				if len(words) == 0 || words[0] != "gpuctl" {
					continue
				}
				commands++
				command, rest, err := newRootCmd(NewFactory(IOStreams{}), "gpuctl").Find(words[1:])
				if err == nil {
					err = command.ParseFlags(rest)
				}
				if err == nil {
					err = command.ValidateArgs(command.Flags().Args())
				}
				if err != nil {
					t.Errorf("%s: %q is no command: %v", all[i].Name, step.Command, err)
				}
			}
		}
	}
	if commands < 50 {
		t.Errorf("the advice has %d commands", commands)
	}
}
