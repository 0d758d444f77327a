// Package emulation decides which version of Kubernetes the scheduler emulates: a newer one has features that wait for kinds which an older API
// server does not serve.
package emulation

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
	apiversion "k8s.io/apimachinery/pkg/version"
	baseversion "k8s.io/component-base/version"
)

// OwnVersion returns the version of Kubernetes that this release is built from.
func OwnVersion() *version.Version {
	return version.MustParseGeneric(baseversion.DefaultKubeBinaryVersion)
}

// Decider is what determined the version.
type Decider string

// What decides.
const (
	ByFlag   Decider = "--emulated-version"
	ByServer Decider = "the API server"
	ByOwn    Decider = "the release"
)

// Choice is a version to emulate.
type Choice struct {
	Version *version.Version
	By      Decider
}

// TooOldError says that an API server is older than anything that a scheduler can emulate.
type TooOldError struct{ Server, Floor *version.Version }

func (e *TooOldError) Error() string {
	return fmt.Sprintf("the API server is Kubernetes %s, and this scheduler can behave as %s at the oldest: upgrade the cluster first, or use an older release; "+
		"--emulated-version=%s starts it all the same", e.Server, e.Floor, e.Floor)
}

// Floor returns the oldest version that a scheduler can emulate, as in k8s.io/apiserver.
func Floor(own *version.Version) *version.Version {
	floor, first := minorOf(own).SubtractMinor(3), version.MajorMinor(1, 31)
	if floor.LessThan(first) {
		return first
	}
	return floor
}

// Choose returns the version that a scheduler emulates: that of a flag, or else the older of its own and the server's. Both flag and server may
// be nil, without a flag and with an unknown version of the server.
func Choose(own, server, flag *version.Version) (Choice, error) {
	own = minorOf(own)
	switch {
	case flag != nil:
		return Choice{minorOf(flag), ByFlag}, nil
	case server == nil || minorOf(server).AtLeast(own):
		return Choice{own, ByOwn}, nil
	case minorOf(server).LessThan(Floor(own)):
		return Choice{}, &TooOldError{Server: minorOf(server), Floor: Floor(own)}
	}
	return Choice{minorOf(server), ByServer}, nil
}

// ServerVersion returns the version that an API server, or its provider, reports in any format. The server may emulate an older version itself.
func ServerVersion(info *apiversion.Info) (*version.Version, error) {
	if found := parseNumbers(info.EmulationMajor, info.EmulationMinor); found != nil {
		return found, nil
	}
	if found, err := version.ParseGeneric(info.GitVersion); err == nil && found.Major() > 0 {
		return minorOf(found), nil
	}
	if found := parseNumbers(info.Major, info.Minor); found != nil {
		return found, nil
	}
	return nil, errors.New("it says " + strconv.Quote(shortenText(info.GitVersion)))
}

// parseNumbers returns a version by its two numbers, with an optional suffix as in "34+"; nil for none.
func parseNumbers(major, minor string) *version.Version {
	found, err := version.ParseGeneric(strings.TrimRight(major, "+") + "." + strings.TrimRight(minor, "+"))
	if err != nil || found.Major() == 0 {
		return nil
	}
	return minorOf(found)
}

// ParseFlag returns the version in --emulated-version for kube's components, nil for none: 1.34 or kube=1.34, in a list separated by commas.
func ParseFlag(value string) *version.Version {
	for part := range strings.SplitSeq(value, ",") {
		component, number, named := strings.Cut(part, "=")
		if !named {
			component, number = "kube", part
		}
		if found, err := version.ParseGeneric(strings.TrimSpace(number)); err == nil && strings.TrimSpace(component) == "kube" {
			return minorOf(found)
		}
	}
	return nil
}

func minorOf(v *version.Version) *version.Version { return version.MajorMinor(v.Major(), v.Minor()) }

// shortenText truncates a text of any length.
func shortenText(text string) string {
	const most = 60
	if len(text) > most {
		return text[:most] + "…"
	}
	return text
}
