package configcheck

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	componentbaseconfig "k8s.io/component-base/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"

	"g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// leastRatio is the recommended minimum ratio of GPUScore's weight to the sum of all other scorers' weights: each gives at most 100 points, and
// one point of GPUScore should outweigh them all.
const leastRatio = 100

// doubts returns warnings about settings of a profile that are accepted but probably not intended.
func doubts(p *Profile, given *config.KubeSchedulerProfile) []string {
	var all []string
	doubt := func(is bool, format string, args ...any) {
		if is {
			all = append(all, fmt.Sprintf("profile %s: ", p.SchedulerName)+fmt.Sprintf(format, args...))
		}
	}
	doubt(p.SchedulerName != v1alpha1.SchedulerName, "gpuctl's jobs name the scheduler %s, so none of them comes here", v1alpha1.SchedulerName)
	filters, scores, chooses := p.runs("GPUFilter"), p.runs("GPUScore"), p.at("reserve", "GPUDevices") >= 0
	doubt((filters || scores) && !chooses, "GPUDevices is not at reserve, so no cards are chosen for pods: enable it at reserve and at bind, before DefaultBinder")
	doubt(chooses && !p.binds(), "GPUDevices is not the first at bind, so the cards that it chose are not written down: enable it at bind, and disable DefaultBinder")
	doubt(filters && p.at("preFilter", "GPUFilter") < 0, "GPUFilter is not at preFilter, so each pod is tried on the nodes of all pools: enable it at multiPoint")
	doubt(scores && p.at("preScore", "GPUScore") < 0, "GPUScore is not at preScore, so it cannot tell racks and replicas apart: enable it at multiPoint")
	weight, others := p.weights()
	doubt(scores && int64(weight) <= leastRatio*others, "GPUScore has the weight %d and the other scorers %d together, so they can undo what it decides: give it more than %d",
		weight, others, leastRatio*others)
	for _, plugin := range given.PluginConfig {
		ours := strings.HasPrefix(plugin.Name, "GPU") || plugin.Name == "Coscheduling"
		doubt(ours && !p.runs(plugin.Name), "there are arguments of %s, which is not enabled", plugin.Name)
	}
	if args := p.argsOf("GPUFilter"); args["promiseLedger"] != nil {
		doubt(args["promiseHorizon"] == "0s", "GPUFilter promises nothing with the promiseHorizon 0s, so it asks no promiseLedger: leave one of them out")
	}
	file := p.argsOf("GPUScore")["policyFile"]
	doubt(file != nil, "GPUScore has its arguments from %v once it can be read, in place of those here: check that file as well", file)
	return all
}

// argsOf returns the arguments of a plugin by their names in the file, nil for none.
func (p *Profile) argsOf(plugin string) map[string]any {
	args, _ := p.Args[plugin].(map[string]any)
	return args
}

// lease is the Lease of manifests/scheduler, by which the API server knows the leader.
const lease = metav1.NamespaceSystem + "/gpu-scheduler"

// unfenced warns if the API server would refuse each binding of the scheduler, as it does where manifests/policy is installed.
func unfenced(election *componentbaseconfig.LeaderElectionConfiguration) []string {
	const refused = ", so the API server refuses every binding where manifests/policy is installed: "
	switch {
	case !election.LeaderElect:
		return []string{"leaderElection.leaderElect is false" + refused + "leave it out, or make it true"}
	case election.ResourceNamespace+"/"+election.ResourceName != lease:
		return []string{fmt.Sprintf("leaderElection names the Lease %s/%s and not %s%swrite resourceNamespace: %s and resourceName: gpu-scheduler",
			election.ResourceNamespace, election.ResourceName, lease, refused, metav1.NamespaceSystem)}
	}
	return nil
}

// at returns the index of a plugin at an extension point, -1 if it is not there.
func (p *Profile) at(point, plugin string) int {
	for _, at := range p.Points {
		if at.Name == point {
			return slices.IndexFunc(at.Plugins, func(is Plugin) bool { return is.Name == plugin })
		}
	}
	return -1
}

// binds reports whether GPUDevices is the first plugin that binds.
func (p *Profile) binds() bool { return p.at("bind", "GPUDevices") == 0 }

func (p *Profile) runs(plugin string) bool {
	return slices.ContainsFunc(p.Points, func(at Point) bool { return p.at(at.Name, plugin) >= 0 })
}

// weights returns the weight of GPUScore, and the sum of the weights of all other scorers.
func (p *Profile) weights() (ours int32, others int64) {
	for _, at := range p.Points {
		for _, plugin := range at.Plugins {
			switch {
			case at.Name != "score":
			case plugin.Name == "GPUScore":
				ours = plugin.Weight
			default:
				others += int64(plugin.Weight)
			}
		}
	}
	return ours, others
}
