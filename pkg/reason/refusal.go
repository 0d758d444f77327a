package reason

import "regexp"

// Refusal is one way in which the API server rejects a pod, recognized by its text.
type Refusal struct {
	Pattern *regexp.Regexp
	Cause   Cause
}

// The rejections that are recognized. Each admission plugin of Kubernetes has its own text.
var (
	RefusedByFullQuota       = &Refusal{regexp.MustCompile(`exceeded quota: ([^,]+), requested: (\S+), used: (\S+), limited: (\S+)`), QuotaExceeded}
	RefusedByDemandingQuota  = &Refusal{regexp.MustCompile(`failed quota: ([^:]+): must specify (.*)`), QuotaExceeded}
	RefusedForClass          = &Refusal{regexp.MustCompile(`no PriorityClass with name (\S+) was found`), NoSuchPriorityClass}
	RefusedForAccount        = &Refusal{regexp.MustCompile(`serviceaccount "([^"]+)" not found`), NoSuchServiceAccount}
	RefusedByLimitRange      = &Refusal{regexp.MustCompile(`((?:maximum|minimum) \S+ usage per (?:Container|Pod) is .*)$`), LimitRangeViolated}
	RefusedByPodSecurity     = &Refusal{regexp.MustCompile(`violates PodSecurity "([^":]+)(?::[^"]*)?": (.*)$`), PodSecurityViolated}
	RefusedByPolicyObject    = &Refusal{regexp.MustCompile(`ValidatingAdmissionPolicy '([^']+)' with binding '[^']+' denied request: (.*)$`), RefusedByPolicy}
	RefusedByEndingNamespace = &Refusal{regexp.MustCompile(`in namespace (\S+) because it is being terminated`), NamespaceTerminating}
	RefusedBySilentWebhook   = &Refusal{regexp.MustCompile(`failed calling webhook "([^"]+)": (.*)$`), WebhookFailing}
	RefusedByWebhook         = &Refusal{regexp.MustCompile(`admission webhook "([^"]+)" denied the request(?:: (.*))?$`), RefusedByAPIServer}
)

// Refusals are all of them.
var Refusals = []*Refusal{
	RefusedByFullQuota, RefusedByDemandingQuota, RefusedForClass, RefusedForAccount, RefusedByLimitRange, RefusedByPodSecurity, RefusedByPolicyObject,
	RefusedByEndingNamespace, RefusedBySilentWebhook, RefusedByWebhook, {regexp.MustCompile(`exceeded quota`), QuotaExceeded},
}

// CauseOfRefusal is the cause for which the API server has rejected a pod with such a message.
func CauseOfRefusal(message string) Cause {
	for _, refusal := range Refusals {
		if refusal.Pattern.MatchString(message) {
			return refusal.Cause
		}
	}
	return RefusedByAPIServer
}
