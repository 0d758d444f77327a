package spot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// Cloud is an account at a cloud, as one SpotPool sees it: it knows the machines with the tags of that SpotPool and no others.
// Errors are [Error]s, or such as say that the answer was lost.
type Cloud interface {
	// Launch buys a machine and returns what the cloud calls it. The same token buys the same machine.
	Launch(ctx context.Context, order Order) (instance string, err error)
	// List returns all machines with the tags, and those of the known ones that the cloud finds without them. Machines that have
	// ended may be missing.
	List(ctx context.Context, known []string) ([]Instance, error)
	// Terminate ends machines. Those that have ended already are no error.
	Terminate(ctx context.Context, instances []string) error
}

// Owner is who machines belong to: their tags.
type Owner struct {
	// Cluster is the UID of the cluster, Pool the name of the SpotPool.
	Cluster, Pool string
}

// Account is what connecting to a cloud needs.
type Account struct {
	Owner    Owner
	Provider g8s.SpotProvider
	Template g8s.MachineTemplate
	// Labels are those of the nodes.
	Labels map[string]string
	// Credentials and UserData are the values of Secrets.
	Credentials map[string]Secret
	UserData    Secret
}

// Connect makes a Cloud of an account. It asks the cloud nothing.
type Connect func(Account) (Cloud, error)

// Secret is a value that is shown nowhere: printed, logged or encoded it is a placeholder.
type Secret struct{ value string }

// NewSecret hides a value.
func NewSecret(value string) Secret { return Secret{value} }

// Reveal is the value.
func (s Secret) Reveal() string { return s.value }

// Trimmed is the value without the line end that files have.
func (s Secret) Trimmed() string { return strings.TrimSpace(s.value) }

const hidden = "[hidden]"

// String shows the placeholder, and so do GoString, Format and MarshalText.
func (Secret) String() string { return hidden }

// GoString shows the placeholder.
func (Secret) GoString() string { return hidden }

// Format shows the placeholder, whatever the verb.
func (Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(hidden)) }

// MarshalText shows the placeholder.
func (Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// Order is a machine to buy.
type Order struct {
	// Machine is its name, and Token what makes buying it twice impossible: 64 characters of ASCII at most.
	Machine, Token string
	// InstanceType and Zone are what is bought where.
	InstanceType, Zone string
}

// Instance is a machine as the cloud has it.
type Instance struct {
	ID string
	// Machine is the name that it was bought under, by its tag.
	Machine            string
	InstanceType, Zone string
	PrivateIP          string
	// PublicIP is its public address, "" while it has none.
	PublicIP string
	// Created is when the cloud made it, zero where it does not say.
	Created time.Time
	State   InstanceState
	// Interruption is when the cloud takes it back, where it has said so.
	Interruption time.Time
}

// InstanceState is how a machine is.
type InstanceState int

// The states of machines in a cloud.
const (
	// Starting is that of a machine that is not there yet.
	Starting InstanceState = iota
	Running
	// Stopping is that of one that is being shut down or ended, Ended of one that has, and costs nothing more.
	Stopping
	Ended
	// Broken is that of one that could not be started, Halted of one that was shut down and is paid for: both have to be ended.
	Broken
	Halted
)

// Kind is what an error of a cloud means for what to do next.
type Kind int

// The kinds of errors.
const (
	// Lost says that nobody knows whether it was done.
	Lost Kind = iota
	// SoldOut says that there is no such machine in the zone, or no quota for it; Refused that the cloud does not sell it like
	// that. Another type or zone may do.
	SoldOut
	Refused
	// Throttled says that the cloud was asked too often, Denied that the account may not, or cannot pay.
	Throttled
	Denied
)

// Error is a cloud's refusal. What it says is in words of ours: what a cloud says may repeat what it was sent.
type Error struct {
	Kind Kind
	// Code is the cloud's, Text what it means where we know better than its kind.
	Code, Text string
}

func (e *Error) Error() string {
	text := cmp.Or(e.Text, e.Kind.String())
	if e.Code == "" {
		return text
	}
	return text + " (" + e.Code + ")"
}

// String says what an error means.
func (k Kind) String() string {
	switch k {
	case SoldOut:
		return "sold out, or beyond the quota"
	case Refused:
		return "the cloud refuses such a machine"
	case Throttled:
		return "the cloud was asked too often"
	case Denied:
		return "the account may not do that, or cannot pay for it: see the Secret credentialsSecret"
	}
	return "the cloud's answer was lost"
}

// kindOf is what an error means. One that is no [Error] says nothing of whether it was done.
func kindOf(err error) Kind {
	var refusal *Error
	if errors.As(err, &refusal) {
		return refusal.Kind
	}
	return Lost
}

// words are what may be shown of an error.
func words(err error) string {
	var refusal *Error
	if errors.As(err, &refusal) {
		return refusal.Error()
	}
	return Lost.String()
}
