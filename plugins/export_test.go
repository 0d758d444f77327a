package plugins

// What tests reach that have a whole scheduler, and no clock to wait for.
var Release = release

// ManyNodes is manyNodes.
const ManyNodes = manyNodes
