package whatif

import (
	"cmp"
	"errors"
	"regexp"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/diagnosis"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/quota"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/pkg/submit"
)

// addRefused adds the jobs that the API server refuses, and restores the order of the requested jobs.
func (a Answer) addRefused(jobs [][]client.Object, verdicts []submit.AdmissionResult) Answer {
	order := map[[3]string]int{}
	for i, objects := range jobs {
		top := objects[0]
		order[jobKey(top.GetNamespace(), top.GetLabels()[names.LabelJobType], top.GetLabels()[names.LabelJob])] = i
		if verdicts[i].Refused != nil {
			a.Jobs = append(a.Jobs, Job{Report: refusalReport(top, verdicts[i].Refused)})
		}
		a.UncheckedTexts = append(a.UncheckedTexts, verdicts[i].Unchecked...)
	}
	for _, sentence := range a.UncheckedTexts {
		a.Unchecked = append(a.Unchecked, sentence.String())
	}
	slices.SortStableFunc(a.Jobs, func(x, y Job) int {
		return cmp.Compare(order[jobKey(x.Namespace, x.Kind, x.Job)], order[jobKey(y.Namespace, y.Kind, y.Job)])
	})
	return a
}

func jobKey(namespace, kind, name string) [3]string { return [3]string{namespace, kind, name} }

// refusalReport explains why the API server refuses a job, as gpuctl why would for the created job.
func refusalReport(top client.Object, refused error) diagnosis.Report {
	facts := diagnosis.Facts{}
	facts.Job.Namespace, facts.Job.Name = top.GetNamespace(), top.GetLabels()[names.LabelJob]
	facts.Job.Kind, facts.Job.Status = top.GetLabels()[names.LabelJobType], inventory.StatusPending
	facts.Job.Refusal = apiMessage(refused)
	report := diagnosis.Diagnose(facts)
	report.Unread = nil // nothing was left out for lack of rights
	if isWithoutNamespace(refused) {
		report.Findings = []diagnosis.Finding{withoutNamespace(report.Cause, top.GetNamespace())}
	}
	var short *submit.QuotaError
	if errors.As(refused, &short) {
		finding := overQuota(short.Excess, top.GetNamespace())
		report.Cause, report.Findings = finding.Cause, []diagnosis.Finding{finding}
	}
	return report
}

func withoutNamespace(cause reason.Cause, namespace string) diagnosis.Finding {
	command := "kubectl create namespace " + namespace
	return diagnosis.Finding{
		Cause: cause, Message: phrase.Textf("there is no namespace %s", namespace),
		Steps: []diagnosis.Step{{
			Action: reason.UseNamespace, Command: command, Message: phrase.Textf("choose one that is there with -n, or have it made: %s", command),
		}},
	}.WithText()
}

func overQuota(excess quota.Excess, namespace string) diagnosis.Finding {
	out := diagnosis.Finding{Cause: reason.QuotaExceeded, Message: phrase.Textf("it %s", excess.Message())}
	if !excess.Never {
		out.Steps = append(out.Steps, diagnosis.Step{
			Action: reason.Wait, Message: phrase.Textf("wait until jobs of this namespace end, or end one that is not needed"),
		})
	}
	command := "gpuctl get quotas -n " + namespace
	out.Steps = append(out.Steps, diagnosis.Step{
		Action: reason.Inspect, Command: command, Message: phrase.Textf("ask for less, or for a higher quota: %s", command),
	})
	return out.WithText()
}

// isWithoutNamespace reports whether an object was refused because its namespace does not exist.
func isWithoutNamespace(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	return details != nil && details.Kind == "namespaces"
}

// podPrefix matches the prefix of a refusal with the name of a pod that will never exist.
var podPrefix = regexp.MustCompile(`^(?:pods|Pod) "[^"]*" is (?:forbidden|invalid): `)

// apiMessage returns the API server's message without the name of the checked pod.
func apiMessage(err error) string {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return podPrefix.ReplaceAllString(status.Status().Message, "")
	}
	return err.Error()
}
