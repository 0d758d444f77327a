package diagnosis

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

// levelLabel is the label by which a namespace enforces Pod Security.
const levelLabel = "pod-security.kubernetes.io/enforce"

// isClosing reports whether the job's namespace is being deleted.
func isClosing(f *Facts) bool {
	namespace := jobNamespace(f)
	return namespace != nil && namespace.DeletionTimestamp != nil
}

// jobNamespace is the job's namespace, nil where it was not read.
func jobNamespace(f *Facts) *corev1.Namespace {
	if f.Space == nil || len(f.Space.Namespaces) == 0 {
		return nil
	}
	return &f.Space.Namespaces[0]
}

func explainClosingNamespace(f *Facts) Finding {
	namespace := jobNamespace(f)
	out := Finding{
		Cause: reason.NamespaceTerminating,
		Message: phrase.Textf("namespace %s is being deleted, told so %s, and nothing starts in it any more",
			f.Job.Namespace, f.sinceText(namespace.DeletionTimestamp.Time)),
		Steps: []Step{{Action: reason.UseNamespace, Command: gpuctlCommand("export", &f.Job),
			Message: phrase.Textf("create the job in another namespace: %s writes its YAML", gpuctlCommand("export", &f.Job))}},
	}
	for _, condition := range namespace.Status.Conditions {
		if condition.Type == corev1.NamespaceFinalizersRemaining && condition.Status == corev1.ConditionTrue {
			out.Message = out.Message.Addf("; its deletion is held up: %s", strings.TrimRight(condition.Message, "."))
		}
	}
	return out
}

// isShort reports whether the job has fewer pods than it wants.
func isShort(f *Facts) bool {
	alive := int32(0)
	for i := range f.Pods {
		if isActive(&f.Pods[i]) || f.Pods[i].Status.Phase == corev1.PodSucceeded {
			alive++
		}
	}
	return alive < max(f.Job.Desired, 1)
}

// explainRefusedPods explains why the API server rejects the pods that the job lacks. It evaluates quotas and limit ranges in their current state. Other
// rejections of the last attempt by a controller count until the cluster shows that they no longer apply. These come first, since the API server asks
// quotas last.
func explainRefusedPods(f *Facts) []Finding {
	if !isShort(f) || f.Simulated {
		return nil
	}
	over := explainExceededBounds(f)
	refused, ok := lastRefusal(f)
	switch {
	case !ok:
		return append(explainClosedPool(f), over...)
	case len(over) == 0:
		return singleFinding(refused)
	case refused.Cause == reason.WaitingForControllers || hasCause(over, refused.Cause):
		return over
	}
	return append(singleFinding(refused), over...)
}

// lastRefusal describes the API server's last rejection of a pod of the job. It returns false if there is none.
func lastRefusal(f *Facts) (Finding, bool) {
	if f.Job.Refusal == "" {
		return Finding{}, false
	}
	return refusalFinding(f), true
}

// refusalFinding describes a rejection by the API server, unless the cluster shows that it no longer applies.
func refusalFinding(f *Facts) Finding {
	for _, rule := range creationRules {
		match := rule.refusal.Pattern.FindStringSubmatch(f.Job.Refusal)
		if match == nil {
			continue
		}
		finding := rule.finding(f, match)
		if rule.over != nil && rule.over(f, match) {
			return explainCreationRetry(f, finding)
		}
		finding.Message = finding.Message.Add(f.refusedAtText())
		return finding
	}
	return Finding{
		Cause: reason.CauseOfRefusal(f.Job.Refusal), Message: phrase.Textf("the API server refuses the job's pods: %s", f.Job.Refusal).Add(f.refusedAtText()),
		Steps: []Step{{Action: reason.AskAdministrators, Message: phrase.Textf("change the job as the message says, or ask the administrators of the cluster")}},
	}
}

// refusedAtText states when the API server last rejected a pod.
func (f *Facts) refusedAtText() phrase.Text {
	if event, ok := lastEvent(f.Job.Events, "FailedCreate"); ok {
		return phrase.Textf("; refused %s", f.sinceText(event.Last))
	}
	return nil
}

// explainCreationRetry reports that the rejection no longer applies and that Kubernetes will retry.
func explainCreationRetry(f *Facts, before Finding) Finding {
	return Finding{
		Cause: reason.WaitingForControllers,
		Message: phrase.Textf("Kubernetes could not create the job's pods, and nothing stands against them any more. Before: %s", before.Message).
			Add(f.refusedAtText()),
		Steps: []Step{waitStep("wait: Kubernetes tries again by itself, within a minute for a job that ends, and within 17 minutes for one that serves")},
	}
}

// creationRule recognizes one rejection by the API server.
type creationRule struct {
	refusal *reason.Refusal
	finding func(f *Facts, match []string) Finding
	// over reports whether the cluster shows that the rejection no longer applies; nil where nothing can show it.
	over func(f *Facts, match []string) bool
}

var creationRules = []creationRule{
	{reason.RefusedByFullQuota, quotaRefused,
		func(f *Facts, _ []string) bool { return f.Space.HasPart(snapshot.PartQuotas) && f.Job.Template != nil }},
	{reason.RefusedByDemandingQuota, quotaUnspecified, quotaGone},
	{reason.RefusedForClass, explainNoPriorityClass,
		func(f *Facts, m []string) bool {
			return slices.ContainsFunc(f.priorityClasses(), func(c priorityClass) bool { return c.Name == m[1] })
		}},
	{reason.RefusedForAccount, explainNoServiceAccount, nil},
	{reason.RefusedByLimitRange, limitRefused,
		func(f *Facts, _ []string) bool {
			return f.Space.HasPart(snapshot.PartLimitRanges) && f.Job.Template != nil
		}},
	{reason.RefusedByPodSecurity, explainPodSecurity, func(f *Facts, m []string) bool {
		namespace := jobNamespace(f)
		return namespace != nil && namespace.Labels[levelLabel] != m[1]
	}},
	{reason.RefusedByPolicyObject, explainPolicyRefusal,
		func(f *Facts, m []string) bool {
			return m[1] == poolAccessPolicy && f.Job.Template != nil && f.Cluster.HasPart(snapshot.PartGPUPools) && len(jobPoolDenial(f)) == 0
		}},
	{reason.RefusedBySilentWebhook, explainWebhookFailure, nil},
	{reason.RefusedByWebhook, explainWebhookRefusal, nil},
}

func explainNoPriorityClass(f *Facts, m []string) Finding {
	out := Finding{Cause: reason.NoSuchPriorityClass, Message: phrase.Textf("there is no PriorityClass %s", m[1]), Steps: []Step{{
		Action: reason.InstallPriorityClasses, Kind: "PriorityClass", Name: m[1],
		Message: phrase.Textf("have the administrators install the priority classes: kubectl apply -k manifests/scheduler"),
	}}}
	if !slices.Contains([]string{names.PriorityClassHigh, names.PriorityClassMedium, names.PriorityClassLow}, m[1]) {
		out.Steps = []Step{{Action: reason.Resubmit, Field: "spec.priorityClassName", Command: gpuctlCommand("delete", &f.Job),
			Message: phrase.Textf("delete the job, give it priority high, medium or low, and submit it again")}, {
			Action: reason.InstallPriorityClasses, Kind: "PriorityClass", Name: m[1], Message: phrase.Textf("have the administrators create the class %s", m[1]),
		}}
	}
	return out
}

func explainNoServiceAccount(f *Facts, m []string) Finding {
	create := "kubectl create serviceaccount " + m[1] + " -n " + f.Job.Namespace
	return Finding{Cause: reason.NoSuchServiceAccount, Message: phrase.Textf("the namespace has no service account %s", m[1]), Steps: []Step{{
		Action: reason.CreateObject, Kind: "ServiceAccount", Name: m[1], Command: create, Message: phrase.Textf("create it: %s", create),
	}}}
}

// onlyPaths matches a Pod Security violation that consists only of hostPath volumes.
var onlyPaths = regexp.MustCompile(`^hostPath volumes \([^)]*\)$`)

// explainPodSecurity explains a Pod Security violation in full: the level, what it forbids about the pod, and what is possible with a YAML that has no security
// context.
func explainPodSecurity(f *Facts, m []string) Finding {
	level, forbidden := m[1], m[2]
	out := Finding{Cause: reason.PodSecurityViolated, Message: phrase.Textf("the namespace enforces Pod Security %q: %s", level, forbidden)}
	if strings.Contains(forbidden, "hostPath") {
		out.Steps = append(out.Steps, Step{Action: reason.SetField, Field: reason.FieldWorkdirs,
			Message: phrase.Textf("leave out the workdirs that are paths of the node; mount a claim instead, with pvc or size")})
	}
	if level == "restricted" {
		out.Message = out.Message.Addf(". A job of gpuctl cannot meet this level: its YAML sets no security context")
		out.Steps = append(out.Steps, Step{Action: reason.UseNamespace, Command: gpuctlCommand("export", &f.Job),
			Message: phrase.Textf("use a namespace of level baseline: %s writes the job's YAML", gpuctlCommand("export", &f.Job))})
	}
	relaxed := "privileged"
	if level == "restricted" {
		relaxed = "baseline"
	} else if !onlyPaths.MatchString(forbidden) { // it would open the nodes to all pods of the namespace
		out.Steps = append(out.Steps, Step{Action: reason.Resubmit, Command: gpuctlCommand("delete", &f.Job),
			Message: phrase.Textf("delete the job, leave out what the level forbids, and submit it again: %s", gpuctlCommand("delete", &f.Job))})
		return out
	}
	label := fmt.Sprintf("kubectl label namespace %s %s=%s --overwrite", f.Job.Namespace, levelLabel, relaxed)
	out.Steps = append(out.Steps, Step{Action: reason.LabelNamespace, Field: levelLabel, Value: relaxed, Kind: "Namespace", Name: f.Job.Namespace,
		Command: label, Message: phrase.Textf("have the administrators relax it: %s", label)})
	return out
}

func explainPolicyRefusal(f *Facts, m []string) Finding {
	if says := jobPoolDenial(f); m[1] == poolAccessPolicy && len(says) > 0 {
		return explainPoolDenied(f, says.Addf(", so that policy %s refuses the job's pods", m[1]))
	}
	return Finding{
		Cause: reason.RefusedByPolicy, Message: phrase.Textf("policy %s of the cluster refuses the job's pods: %s", m[1], strings.TrimRight(m[2], " .")),
		Steps: []Step{
			{Action: reason.Resubmit, Kind: "ValidatingAdmissionPolicy", Name: m[1], Command: gpuctlCommand("delete", &f.Job),
				Message: phrase.Textf("change the job as the policy says, then delete it and submit it again")},
			{Action: reason.ChangePolicy, Kind: "ValidatingAdmissionPolicy", Name: m[1], Message: phrase.Textf("ask the administrators for an exemption from policy %s", m[1])},
		},
	}
}

func explainWebhookRefusal(f *Facts, m []string) Finding {
	return Finding{
		Cause: reason.RefusedByAPIServer, Message: withDetail(phrase.Textf("the admission webhook %s of the cluster refuses the job's pods", m[1]), m[2]),
		Steps: []Step{
			{Action: reason.Resubmit, Kind: "Webhook", Name: m[1], Command: gpuctlCommand("delete", &f.Job),
				Message: phrase.Textf("change the job as the message says, then delete it and submit it again")},
			{Action: reason.MendWebhook, Kind: "Webhook", Name: m[1], Message: phrase.Textf("ask the administrators who runs %s", m[1])},
		},
	}
}

func explainWebhookFailure(_ *Facts, m []string) Finding {
	return Finding{
		Cause: reason.WebhookFailing, Message: phrase.Textf("the admission webhook %s does not answer, and the API server creates no pod without it: %s", m[1], m[2]),
		Steps: []Step{{Action: reason.MendWebhook, Kind: "Webhook", Name: m[1],
			Message: phrase.Textf("tell the administrators: webhook %s has to answer again, or to be removed; then Kubernetes creates the pods by itself", m[1])}},
	}
}

// explainNotCreated explains a job without pods for which no rejection is known.
func explainNotCreated(f *Facts) Finding {
	age := f.Cluster.Now.Sub(f.Job.Created)
	out := Finding{Cause: reason.WaitingForControllers, Message: phrase.Textf("Kubernetes has not created the job's pods"),
		Steps: []Step{waitStep("wait a moment: Kubernetes creates them")}}
	switch {
	case f.Job.ControllerObserved:
		out.Message = out.Message.Addf(" yet, though its job controller has seen the job")
	case age > slowController:
		out.Message = out.Message.Addf(": no controller has looked at the job, which was created %s ago", durationText(age))
		out.Steps = []Step{{Action: reason.StartControllers, Kind: "Deployment", Name: "kube-controller-manager",
			Message: phrase.Textf("tell the administrators: kube-controller-manager is not running, or far behind")}}
	}
	return out
}

// slowController is how long a healthy controller may take to notice a job.
const slowController = 5 * second

// lastEvent returns the newest event with one of the reasons.
func lastEvent(events []inventory.Event, reasons ...string) (inventory.Event, bool) {
	for _, event := range slices.Backward(events) {
		if slices.Contains(reasons, event.Reason) {
			return event, true
		}
	}
	return inventory.Event{}, false
}
