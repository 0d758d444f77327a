package doctor

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/version"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/emulation"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

// checkEmulation reports which version of Kubernetes the scheduler of this release emulates for a version of the API server.
func (f *Installation) checkEmulation(server *version.Version, text phrase.Text) Check {
	const name = "Kubernetes"
	var flag *version.Version
	if scheduler := f.findWorkload(names.SchedulerName); scheduler != nil {
		flag = emulation.ParseFlag(strings.Join(scheduler.flagValues("--emulated-version"), ","))
	}
	choice, err := emulation.Choose(emulation.OwnVersion(), server, flag)
	switch {
	case err != nil:
		return Check{Name: name, Status: Failed, Text: phrase.Textf("%s, and the scheduler needs %s or newer", text, emulation.Floor(emulation.OwnVersion()).String()),
			Advice: phrase.Textf("upgrade the cluster first")}
	case choice.Version.GreaterThan(server):
		return Check{Name: name, Status: Warning, Text: phrase.Textf("%s, and --emulated-version has the scheduler behave as %s", text, choice.Version.String()),
			Advice: phrase.Textf("take --emulated-version from its arguments: it may wait for kinds that the API server does not know")}
	case choice.By == emulation.ByOwn && choice.Version.EqualTo(server):
		return Check{Name: name, Status: OK, Text: text}
	}
	return Check{Name: name, Status: OK, Text: phrase.Textf("%s, and the scheduler behaves as Kubernetes %s", text, choice.Version.String())}
}
