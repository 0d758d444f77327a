package diagnosis

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"g8s.host/gpu-scheduler/pkg/inventory"
)

func isSettled(status inventory.Status) bool {
	return slices.Contains([]inventory.Status{
		inventory.StatusSucceeded, inventory.StatusFailed, inventory.StatusTerminating, inventory.StatusSuspended,
		inventory.StatusCancelled,
	}, status)
}

// settled tells what a job has come to that waits for nothing.
func settled(job *inventory.JobDetail) []Finding {
	switch job.Status {
	case inventory.StatusSucceeded:
		return one(Finding{Cause: Succeeded, Text: "the job has finished, and well"})
	case inventory.StatusTerminating:
		return one(Finding{Cause: Deleted, Text: "the job is being deleted"})
	case inventory.StatusSuspended:
		return one(suspended(job))
	case inventory.StatusCancelled:
		return one(Finding{Cause: Cancelled, Text: "the job was cancelled and holds no GPUs", Advice: []string{
			fmt.Sprintf("start it over: gpuctl retry %s -n %s", job.Name, job.Namespace),
		}})
	}
	return one(failed(job))
}

func one(f Finding) []Finding { return []Finding{f} }

// incomplete tells of a job whose creation was cut short. Whatever else stands against it may come from that.
func incomplete(job *inventory.JobDetail) Finding {
	return Finding{
		Cause: Incomplete, Text: "not all objects of the job were created: its creation was cut short, or goes on",
		Advice: []string{
			"complete it: gpuctl create with the same file once more",
			fmt.Sprintf("or delete what there is of it: gpuctl delete %s -n %s", job.Name, job.Namespace),
		},
	}
}

func suspended(job *inventory.JobDetail) Finding {
	return Finding{
		Cause: Suspended, Text: job.Message,
		Advice: []string{fmt.Sprintf("resume it: gpuctl resume %s -n %s", job.Name, job.Namespace)},
	}
}

func failed(job *inventory.JobDetail) Finding {
	return Finding{
		Cause: Failed, Text: job.Reason + ": " + job.Message,
		Advice: append(memoryAdvice(job.Trouble), logsAdvice(job)),
	}
}

// memoryAdvice is what to do about a container that was killed for its memory, nothing about any other.
func memoryAdvice(trouble inventory.Trouble) []string {
	if strings.Contains(trouble.Message, "OOMKilled") || trouble.Reason == "OOMKilled" {
		return []string{"ask for more memory in resources.memory, or use less"}
	}
	return nil
}

// notCreated explains a job of which no pod exists.
func notCreated(job *inventory.JobDetail) []Finding {
	if job.Reason != "FailedCreate" {
		return one(Finding{
			Cause: WaitingForControllers, Text: "Kubernetes has not created the job's pods",
			Advice: []string{"wait a moment; if it lasts, kube-controller-manager is not running: tell the administrators"},
		})
	}
	for _, rule := range creationRules {
		if match := rule.pattern.FindStringSubmatch(job.Message); match != nil {
			return one(Finding{Cause: rule.cause, Text: rule.text(match), Advice: rule.advice})
		}
	}
	return one(Finding{
		Cause: RefusedByAPIServer, Text: "the API server refuses the job's pods: " + job.Message,
		Advice: []string{"change the job as the message says, or ask the administrators of the cluster"},
	})
}

// creationRule recognises one refusal of the API server.
type creationRule struct {
	pattern *regexp.Regexp
	cause   Cause
	text    func(match []string) string
	advice  []string
}

var creationRules = []creationRule{
	{
		pattern: regexp.MustCompile(`exceeded quota: (\S+), requested: (\S+), used: (\S+), limited: (\S+)`), cause: QuotaExceeded,
		text: func(m []string) string {
			return fmt.Sprintf("quota %s of the namespace is exceeded: a pod asks for %s, %s is in use, the limit is %s", m[1], m[2], m[3], m[4])
		},
		advice: []string{"ask for less, delete a job of this namespace that is not needed, or ask for a higher quota"},
	},
	{
		pattern: regexp.MustCompile(`failed quota: (\S+): must specify (.*)`), cause: QuotaExceeded,
		text: func(m []string) string {
			return fmt.Sprintf("quota %s of the namespace wants every pod to specify %s", m[1], m[2])
		},
		advice: []string{"name these resources in the job"},
	},
	{
		pattern: regexp.MustCompile(`no PriorityClass with name (\S+) was found`), cause: NoSuchPriorityClass,
		text:   func(m []string) string { return fmt.Sprintf("there is no PriorityClass %s", m[1]) },
		advice: []string{"have the administrators install the priority classes: kubectl apply -k manifests/scheduler"},
	},
	{
		pattern: regexp.MustCompile(`serviceaccount "([^"]+)" not found`), cause: NoSuchServiceAccount,
		text:   func(m []string) string { return fmt.Sprintf("the namespace has no service account %s", m[1]) },
		advice: []string{"create it, or name another one"},
	},
	{
		pattern: regexp.MustCompile(`((?:maximum|minimum) \S+ usage per (?:Container|Pod) is .*)$`), cause: LimitRangeViolated,
		text:   func(m []string) string { return "a limit range of the namespace: " + m[1] },
		advice: []string{"ask for an amount within the limit"},
	},
	{
		pattern: regexp.MustCompile(`violates PodSecurity "([^"]+)": (.*)$`), cause: PodSecurityViolated,
		text:   func(m []string) string { return fmt.Sprintf("the namespace enforces Pod Security %q: %s", m[1], m[2]) },
		advice: []string{"leave out what it forbids, such as a hostPath workdir, or use another namespace"},
	},
	{
		pattern: regexp.MustCompile(`ValidatingAdmissionPolicy '([^']+)' with binding '[^']+' denied request: (.*)$`), cause: RefusedByPolicy,
		text: func(m []string) string {
			return fmt.Sprintf("policy %s of the cluster refuses the job's pods: %s", m[1], m[2])
		},
		advice: []string{"change the job as the policy says, then delete it and submit it again"},
	},
}
