package scheme

import (
	"slices"

	kubeschedulerv1 "k8s.io/kube-scheduler/config/v1"
)

// Keeping nodes whole was part of GPUScore before it became a plugin.
const (
	score   = "GPUScore"
	reserve = "GPUReserve"
)

// addReserve keeps the behavior of a profile that is older than GPUReserve: the new plugin runs wherever GPUScore ran and replaces that function of
// it. A profile that names GPUReserve, even to disable it, is not changed.
func addReserve(plugins *kubeschedulerv1.Plugins) {
	if plugins == nil || slices.ContainsFunc([]kubeschedulerv1.PluginSet{plugins.MultiPoint, plugins.PreFilter, plugins.Filter}, namesReserve) {
		return
	}
	for _, set := range []*kubeschedulerv1.PluginSet{&plugins.MultiPoint, &plugins.PreFilter} {
		insertReserve(&set.Enabled)
		insertReserve(&set.Disabled)
	}
	for _, list := range [][]kubeschedulerv1.Plugin{plugins.Filter.Enabled, plugins.Filter.Disabled} {
		for i := range list {
			if list[i].Name == score { // which is not at Filter any more
				list[i] = kubeschedulerv1.Plugin{Name: reserve}
			}
		}
	}
}

func namesReserve(set kubeschedulerv1.PluginSet) bool {
	return indexOf(set.Enabled, reserve) >= 0 || indexOf(set.Disabled, reserve) >= 0
}

// insertReserve puts GPUReserve behind GPUScore, if that is in a list.
func insertReserve(list *[]kubeschedulerv1.Plugin) {
	if at := indexOf(*list, score); at >= 0 {
		*list = slices.Insert(*list, at+1, kubeschedulerv1.Plugin{Name: reserve})
	}
}

func indexOf(list []kubeschedulerv1.Plugin, name string) int {
	return slices.IndexFunc(list, func(p kubeschedulerv1.Plugin) bool { return p.Name == name })
}
