package diagnosis

import (
	"fmt"
	"slices"
	"strings"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/reason"
)

// readingVerbs are the commands of gpuctl that show a workload, whoever made it.
var readingVerbs = []string{"describe", "get", "logs", "queue", "top", "usage", "why"}

// adviseForeign keeps the steps that apply to a workload that gpuctl did not make. If a finding had others alone, the remedy is where the workload
// was made.
func adviseForeign(report *Report, job *inventory.JobDetail) {
	for i := range report.Findings {
		finding := &report.Findings[i]
		had := len(finding.Steps)
		finding.keepSteps(func(step Step) bool { return !isOfJob(step) || showsJob(step) })
		if had == 0 || len(finding.Steps) > 0 {
			continue
		}
		edit := fmt.Sprintf("kubectl -n %s edit %s %s", job.Namespace, strings.ToLower(job.Object.Kind), job.Object.Name)
		finding.Steps = []Step{{Action: reason.Resubmit, Kind: job.Object.Kind, Name: job.Object.Name, Command: edit,
			Message: phrase.Textf("change it where it was made, or by hand: %s", edit)}}
		*finding = finding.WithText()
	}
}

// showsJob reports whether the command of a step only shows.
func showsJob(step Step) bool {
	verb, _, _ := strings.Cut(strings.TrimPrefix(step.Command, "gpuctl "), " ")
	return step.Command != "" && slices.Contains(readingVerbs, verb)
}
