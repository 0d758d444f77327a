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

// minWeightRatio is the recommended minimum ratio of GPUScore's weight to the sum of all other scorers' weights: each gives at most 100 points, and
// one point of GPUScore should outweigh them all.
const minWeightRatio = 100

// profileWarnings returns warnings about settings of a profile that are accepted but probably not intended.
func profileWarnings(p *Profile, given *config.KubeSchedulerProfile) []string {
	var all []string
	doubt := func(is bool, format string, args ...any) {
		if is {
			all = append(all, fmt.Sprintf("profile %s: ", p.SchedulerName)+fmt.Sprintf(format, args...))
		}
	}
	doubt(!v1alpha1.IsOurScheduler(p.SchedulerName), "gpuctl's jobs name the scheduler %s, so none of them comes here", v1alpha1.SchedulerName)
	filters, scores, chooses := p.runsPlugin("GPUFilter"), p.runsPlugin("GPUScore"), p.pluginIndex("reserve", "GPUDevices") >= 0
	doubt((filters || scores) && !chooses, "GPUDevices is not at reserve, so no cards are chosen for pods: enable it at reserve and at bind, before DefaultBinder")
	doubt(chooses && !p.bindsFirst(), "GPUDevices is not the first at bind, so the cards that it chose are not written down: enable it at bind, and disable DefaultBinder")
	doubt(filters && p.pluginIndex("preFilter", "GPUFilter") < 0, "GPUFilter is not at preFilter, so each pod is tried on the nodes of all pools: enable it at multiPoint")
	doubt(scores && p.pluginIndex("preScore", "GPUScore") < 0, "GPUScore is not at preScore, so it cannot tell racks and replicas apart: enable it at multiPoint")
	weight, others := p.scorerWeights()
	doubt(scores && int64(weight) <= minWeightRatio*others, "GPUScore has the weight %d and the other scorers %d together, so they can undo what it decides: give it more than %d",
		weight, others, minWeightRatio*others)
	for _, plugin := range given.PluginConfig {
		ours := strings.HasPrefix(plugin.Name, "GPU") || plugin.Name == "Coscheduling"
		doubt(ours && !p.runsPlugin(plugin.Name), "there are arguments of %s, which is not enabled", plugin.Name)
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

// leaderLease is the Lease of manifests/scheduler, by which the API server knows the leader.
const leaderLease = metav1.NamespaceSystem + "/gpu-scheduler"

// leaderElectionWarnings warns if the API server would refuse each binding of the scheduler, as it does where manifests/policy is installed.
func leaderElectionWarnings(election *componentbaseconfig.LeaderElectionConfiguration) []string {
	const refused = ", so the API server refuses every binding where manifests/policy is installed: "
	switch {
	case !election.LeaderElect:
		return []string{"leaderElection.leaderElect is false" + refused + "leave it out, or make it true"}
	case election.ResourceNamespace+"/"+election.ResourceName != leaderLease:
		return []string{fmt.Sprintf("leaderElection names the Lease %s/%s and not %s%swrite resourceNamespace: %s and resourceName: gpu-scheduler",
			election.ResourceNamespace, election.ResourceName, leaderLease, refused, metav1.NamespaceSystem)}
	}
	return nil
}

// pluginIndex returns the index of a plugin at an extension point, -1 if it is not there.
func (p *Profile) pluginIndex(point, plugin string) int {
	for _, at := range p.Points {
		if at.Name == point {
			return slices.IndexFunc(at.Plugins, func(is Plugin) bool { return is.Name == plugin })
		}
	}
	return -1
}

// bindsFirst reports whether GPUDevices is the first plugin that binds.
func (p *Profile) bindsFirst() bool { return p.pluginIndex("bind", "GPUDevices") == 0 }

func (p *Profile) runsPlugin(plugin string) bool {
	return slices.ContainsFunc(p.Points, func(at Point) bool { return p.pluginIndex(at.Name, plugin) >= 0 })
}

// scorerWeights returns the weight of GPUScore, and the sum of the weights of all other scorers.
func (p *Profile) scorerWeights() (ours int32, others int64) {
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
