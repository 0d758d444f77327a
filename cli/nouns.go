package cli

import "g8s.host/gpu-scheduler/pkg/phrase"

// noun is what things are called, one of them and several.
type noun struct{ one, many phrase.Text }

// nounOf is a noun in every language. Kinds of objects have the same name in all of them.
func nounOf(word string) noun {
	switch word {
	case "job":
		return noun{phrase.Of("job"), phrase.Of("jobs")}
	case "finished job":
		return noun{phrase.Of("finished job"), phrase.Of("finished jobs")}
	case "waiting job":
		return noun{phrase.Of("waiting job"), phrase.Of("waiting jobs")}
	case "pod":
		return noun{phrase.Of("pod"), phrase.Of("pods")}
	case "node":
		return noun{phrase.Of("node"), phrase.Of("nodes")}
	case "pool":
		return noun{phrase.Of("pool"), phrase.Of("pools")}
	case "label":
		return noun{phrase.Of("label"), phrase.Of("labels")}
	case "event":
		return noun{phrase.Of("event"), phrase.Of("events")}
	case "quota":
		return noun{phrase.Of("quota"), phrase.Of("quotas")}
	case "preset":
		return noun{phrase.Of("preset"), phrase.Of("presets")}
	case "namespace":
		return noun{phrase.Of("namespace"), phrase.Of("namespaces")}
	case "replica":
		return noun{phrase.Of("replica"), phrase.Of("replicas")}
	case "reservation":
		return noun{phrase.Of("reservation"), phrase.Of("reservations")}
	}
	return noun{phrase.Quote(word), phrase.Quote(word + "s")}
}

// plural is so many of something.
func plural(n int, word string) phrase.Text {
	if n == 1 {
		switch word {
		case "GPU":
			return phrase.Of("1 GPU")
		case "node":
			return phrase.Of("1 node")
		case "pod":
			return phrase.Of("1 pod")
		case "job":
			return phrase.Of("1 job")
		case "file":
			return phrase.Of("1 file")
		}
		return phrase.Of("1 %s", nounOf(word).one)
	}
	switch word {
	case "GPU":
		return phrase.Of("%d GPUs", n)
	case "node":
		return phrase.Of("%d nodes", n)
	case "pod":
		return phrase.Of("%d pods", n)
	case "job":
		return phrase.Of("%d jobs", n)
	case "file":
		return phrase.Of("%d files", n)
	}
	return phrase.Of("%d %s", n, nounOf(word).many)
}
