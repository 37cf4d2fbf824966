/**
 * A character that can hide or reorder text: controls, zero-width, bidirectional, tag and filler characters, and selectors
 * of variants, which can carry any bytes. Tabs, line feeds and the selector of coloured emoji are too common to say anything.
 */
export const hiddenCharacter = /(?!\t|\n|\uFE0F)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/u;
