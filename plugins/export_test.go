package plugins

// What tests reach that have a whole scheduler, and no clock to wait for.
var (
	Release      = release
	Tell         = tell
	FirstOfGangs = firstOfGangs
)

// ManyNodes is manyNodes.
const ManyNodes = manyNodes
