package supportbundle

import (
	"context"
	"fmt"
	"net/url"
	"path"
	"slices"

	"g8s.host/gpu-scheduler/pkg/doctor"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

// Maximum numbers of pods whose logs are included. Agents are on every node, so they are counted separately and come last.
const (
	maxLogPods   = 30
	maxAgentPods = 10
)

// podsWithLogs returns the pods whose logs are included, and how many of our pods are left out.
func podsWithLogs(server string, pods []any) (taken []any, left int) {
	var programs, agents []any
	for _, pod := range pods {
		namespace, name := objectName(pod)
		switch {
		case !doctor.IsOurs(server, namespace, name):
		case doctor.IsAgentObject(namespace, name):
			agents = append(agents, pod)
		default:
			programs = append(programs, pod)
		}
	}
	all := len(programs) + len(agents)
	taken = slices.Concat(programs[:min(len(programs), maxLogPods)], agents[:min(len(agents), maxAgentPods)])
	return taken, all - len(taken)
}

// addLogs adds the end of our pods' logs, and of those before their last restart.
func (b *Bundler) addLogs(ctx context.Context, pods []any) error {
	taken, left := podsWithLogs(b.Server, pods)
	for _, pod := range taken {
		namespace, name := objectName(pod)
		b.Report(phrase.Textf("the log of %s/%s", namespace, name))
		for _, previous := range []string{"false", "true"} {
			if err := b.addLog(ctx, namespace, name, previous); err != nil {
				return err
			}
		}
	}
	if left > 0 {
		b.entries = append(b.entries, Entry{Name: "logs", Error: fmt.Sprintf("%d more pods, of which the logs were not taken", left)})
	}
	return nil
}

func (b *Bundler) addLog(ctx context.Context, namespace, name, previous string) error {
	file := path.Join("logs", namespace, name+map[string]string{"false": ".log", "true": ".before.log"}[previous])
	query := url.Values{"tailLines": {logLines}, "limitBytes": {fmt.Sprint(maxLogBytes)}, "previous": {previous}, "timestamps": {"true"}}
	data, err := b.getPath(ctx, "/api/v1/namespaces/"+namespace+"/pods/"+name+container, query, maxLogBytes)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil && previous == "true":
		return nil // it was never restarted
	case err != nil:
		b.entries = append(b.entries, Entry{Name: file, Error: RedactText(err.Error())})
		return nil
	}
	return b.addFile(file, "the log", []byte(RedactText(string(data))))
}
