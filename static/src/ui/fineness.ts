// A canvas that can be drawn finer draws itself with as many pixels in a CSS pixel as the detail of this event says.
export const FINENESS = "fineness";
