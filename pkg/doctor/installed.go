package doctor

import (
	"cmp"
	"slices"
	"strings"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

func (f *Installation) findWorkload(name string) *Workload {
	i := slices.IndexFunc(f.Workloads, func(w Workload) bool { return w.Name == name })
	if i < 0 {
		return nil
	}
	return &f.Workloads[i]
}

// checkComponent checks whether one of our workloads runs. Without the scheduler the others are useless; the scheduler works without them.
func (f *Installation) checkComponent(c component) Check {
	w := f.findWorkload(c.name)
	switch {
	case w == nil && slices.Contains(f.Hidden, partWorkloads):
		return Check{Name: c.name, Status: Unknown, Text: phrase.Textf("you may not read what runs in namespace %s", c.namespace),
			Advice: phrase.Textf("ask an administrator to run gpuctl doctor --install")}
	case w == nil && c.name == names.SchedulerName:
		return Check{Name: c.name, Status: Warning, Text: phrase.Textf("not installed: it %s", c.what), Advice: phrase.Quote(c.install)}
	case w == nil:
		return Check{Name: c.name, Status: OK, Text: phrase.Textf("not installed: it %s, and can be left out", c.what)}
	}
	return f.checkRunning(c, w)
}

// checkRunning checks the pods of an installed component.
func (f *Installation) checkRunning(c component, w *Workload) Check {
	where := phrase.Textf("kubectl -n %s describe pods -l app.kubernetes.io/name=%s", w.Namespace, w.Name)
	if c.needs != "" {
		where = where.Addf("; does its Secret %s exist?", c.needs)
	}
	text := phrase.Textf("%d of %d pods are ready", w.Ready, w.Desired)
	leader, known := f.findLeader(c.name)
	switch {
	case w.Desired == 0 && known && leader.State == snapshot.Leads:
		return Check{Name: c.name, Status: OK, Text: phrase.Textf("it is scaled to no pods, and runs outside of them: %s leads", leader.Name)}
	case w.Desired == 0 && w.Kind == daemonSet:
		return Check{Name: c.name, Status: Warning, Text: phrase.Textf("it is installed, and on no node"),
			Advice: phrase.Textf("label the nodes that it is for: kubectl label node NODE %s=%s", names.LabelAgent, names.True)}
	case w.Desired == 0:
		return Check{Name: c.name, Status: Warning, Text: phrase.Textf("it is scaled to no pods"),
			Advice: phrase.Textf("kubectl -n %s scale %s %s --replicas=1", w.Namespace, strings.ToLower(w.Kind), w.Name)}
	case w.Ready == 0:
		return Check{Name: c.name, Status: Failed, Text: text, Advice: where}
	case w.Ready < w.Desired:
		return Check{Name: c.name, Status: Warning, Text: text, Advice: where}
	}
	return Check{Name: c.name, Status: OK, Text: text}
}

// checkVersions looks for components of several releases. Digests do not identify a release.
func (f *Installation) checkVersions() Check {
	const name = "versions"
	tags := map[string][]string{}
	for i := range f.Workloads {
		if tag := imageTag(f.Workloads[i].Image); tag != "" {
			tags[tag] = append(tags[tag], f.Workloads[i].Name)
		}
	}
	if len(tags) < 2 {
		return Check{Name: name, Status: OK, Text: phrase.Textf("no two components are of different releases")}
	}
	var parts []phrase.Text
	for tag, of := range tags {
		slices.Sort(of)
		parts = append(parts, phrase.Textf("%s of %s", strings.Join(of, ", "), shortenText(tag)))
	}
	slices.SortFunc(parts, func(a, b phrase.Text) int { return cmp.Compare(a.String(), b.String()) })
	return Check{Name: name, Status: Warning, Text: phrase.Textf("there are %s", phrase.Join(parts, phrase.Textf("; "))),
		Advice: phrase.Textf("upgrade all of them: docs/upgrade.md has the order")}
}

// imageTag is an image's tag, "" where it has none or a digest.
func imageTag(image string) string {
	if strings.Contains(image, "@") {
		return ""
	}
	_, tag, _ := strings.Cut(image[strings.LastIndex(image, "/")+1:], ":")
	return tag
}

// checkSpotPools looks for machines that would never be ended: their pool exists, but its controller does not run, or no longer.
func (f *Installation) checkSpotPools() Check {
	const name = "SpotPools"
	controller := f.findWorkload(controllerName)
	leader, known := f.findLeader(controllerName)
	lost := chooseByCount(f.SpotPools, phrase.Textf("1 has machines that nobody looks after, and that are paid for"),
		phrase.Textf("%d have machines that nobody looks after, and that are paid for", f.SpotPools))
	switch {
	case f.SpotPools == 0:
		return Check{Name: name, Status: OK, Text: phrase.Textf("there are none whose machines must be ended before an uninstall")}
	case known && leader.PlacesJobs():
	case controller == nil && !slices.Contains(f.Hidden, partWorkloads):
		return Check{Name: name, Status: Failed, Text: lost,
			Advice: phrase.Textf("install gpu-controller again, delete them, and wait until they are gone: %s --set spot.enabled=true", withChart)}
	case known && (leader.State != snapshot.NeverLed || controller == nil || controller.Ready == 0): // one alone may do without a lease
		return Check{Name: name, Status: Failed, Text: lost.Addf(": no gpu-controller leads"),
			Advice: phrase.Textf("see why it is down: kubectl -n kube-system get pods -l app.kubernetes.io/name=%s", controllerName)}
	}
	if len(f.SpotTroubles) > 0 {
		first := f.SpotTroubles[0]
		text := phrase.Textf("machines of %s do not come: %s", first.SpotPool, phrase.FromEnglish(first.Text))
		if others := len(f.SpotTroubles) - 1; others > 0 {
			text = text.Add(chooseByCount(others, phrase.Textf("; nor do those of 1 more"), phrase.Textf("; nor do those of %d more", others)))
		}
		return Check{Name: name, Status: Warning, Text: text, Advice: phrase.Textf("see what is the matter: gpuctl describe spotpool %s", first.SpotPool)}
	}
	return Check{Name: name, Status: OK, Text: chooseByCount(f.SpotPools, phrase.Textf("1 is there"), phrase.Textf("%d are there", f.SpotPools)).
		Addf(": delete them before an uninstall, and wait until they are gone")}
}

// checkChannels looks for channels that jobs may name and that have no address. It does not check the addresses of the others.
func (f *Installation) checkChannels() Check {
	const name = partChannels
	if slices.Contains(f.Hidden, partChannels) {
		return Check{Name: name, Status: Unknown, Text: phrase.Textf("you may not read them"), Advice: phrase.Textf("ask an administrator to run gpuctl doctor --install")}
	}
	lost := slices.DeleteFunc(slices.Clone(f.Channels), func(channel string) bool { return slices.Contains(f.Addressed, channel) })
	if len(lost) > 0 {
		return Check{Name: name, Status: Warning, Text: phrase.Textf("without a URL, so that nobody is told how jobs end: %s", strings.Join(lost, ", ")),
			Advice: phrase.Textf("write it into the Secret kube-system/%s, under the name of the channel: docs/operations.md", names.ChannelSecret)}
	}
	return Check{Name: name, Status: OK, Text: phrase.Textf("each has a URL: %s", strings.Join(f.Channels, ", "))}
}

// checkLeftovers looks for configurations that no pod mounts: each change makes one with another name.
func (f *Installation) checkLeftovers() Check {
	const name = "leftovers"
	var old []string
	for _, config := range f.Configs {
		if config != f.Mounted {
			old = append(old, config)
		}
	}
	if len(old) == 0 || f.Mounted == "" {
		return Check{Name: name, Status: OK, Text: phrase.Textf("no configuration of an older installation is left")}
	}
	return Check{
		Name: name, Status: Warning, Text: chooseByCount(len(old), phrase.Textf("1 configuration that no scheduler uses is left"),
			phrase.Textf("%d configurations that no scheduler uses are left", len(old))).Addf(": %s", examplesText(old)),
		Advice: phrase.Textf("when you do not mean to roll back: kubectl -n kube-system delete configmap %s", slices.Min(old)),
	}
}
