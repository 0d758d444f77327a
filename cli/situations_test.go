package cli

import (
	"bytes"
	"strings"
	"testing"

	"g8s.host/gpu-scheduler/pkg/diagnosis"
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
